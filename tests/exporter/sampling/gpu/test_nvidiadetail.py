"""What NVIDIA's cards tell on request, by the real Python binding before a stand-in of the library."""

import pytest

from jobfeatures_exporter.sampling.gpu import nvidiadetail
from jobfeatures_exporter.sampling.gpu.nvidiadetail import FIGURES

PROFILE = " gpm=2:{sm},3:12.5,5:7,10:40,20:1.5,21:2,60:8,61:16"
INSTANCE = "mig gpu=0 uuid=MIG-3333 gi=1 ci=0 total=5000 used=100 gpm=2:{sm}"


@pytest.fixture
def read(make_nvidia, clock):
    """Return a function that reads everything, ten seconds after the reading before, by UUID."""
    driver = make_nvidia(detail=True)

    def read_all():
        clock.advance(10)
        return {sample.card.uuid: sample for sample in driver.read()}

    return read_all


@pytest.fixture
def h100(nvml):
    """Return a function that makes a card of which everything is known; further words go to its line."""

    def say(*lines, sm=50, words=""):
        card = (
            nvml.A100 + PROFILE.format(sm=sm) + " ecc=3,0,17,1 rows=2,1,1,0 throttle=5 reasons=0x1ff" + words
        )
        nvml.say(nvml.DRIVER, card, nvml.T4, *lines)

    say()
    return say


def test_the_numbers_of_the_profile_are_those_of_nvml():
    import pynvml

    named = {
        ("busy", "sm"): "SM_UTIL",
        ("busy", "warps"): "SM_OCCUPANCY",
        ("busy", "tensor"): "ANY_TENSOR_UTIL",
        ("busy", "memory"): "DRAM_BW_UTIL",
        ("link", "pcie", "transmit"): "PCIE_TX_PER_SEC",
        ("link", "pcie", "receive"): "PCIE_RX_PER_SEC",
        ("link", "nvlink", "transmit"): "NVLINK_TOTAL_TX_PER_SEC",
        ("link", "nvlink", "receive"): "NVLINK_TOTAL_RX_PER_SEC",
    }
    assert {count: number for number, (count, _) in FIGURES.items()} == {
        count: getattr(pynvml, f"NVML_GPM_METRIC_{name}") for count, name in named.items()
    }


def test_nothing_of_it_is_asked_for_without_the_setting(h100, make_nvidia, unreadable):
    asked = ("GpmQueryDeviceSupport", "EventSetCreate", "DeviceGetTotalEccErrors", "DeviceGetRemappedRows",
             "DeviceGetCurrentClocksEventReasons")  # fmt: skip
    h100(*(f"fail func=nvml{name} code=999" for name in asked))
    sample = next(iter(make_nvidia().read()))
    assert (sample.counts, sample.flags, sample.clock_reasons) == ({}, {}, {})
    assert unreadable.counts == {}


def test_a_profile_is_what_was_counted_between_two_samples(h100, read):
    assert ("profiled",) not in read()["GPU-1111"].counts  # one sample says nothing
    h100(sm=100)
    counts = read()["GPU-1111"].counts
    assert {key: counts[key] for key, _ in FIGURES.values()} == {
        ("busy", "sm"): pytest.approx(7.5),  # ten seconds between the stand-in's 50 and its 100 percent
        ("busy", "warps"): pytest.approx(1.25),
        ("busy", "tensor"): pytest.approx(0.7),
        ("busy", "memory"): pytest.approx(4),
        ("link", "pcie", "transmit"): 15 * 2**20,
        ("link", "pcie", "receive"): 20 * 2**20,
        ("link", "nvlink", "receive"): 80 * 2**20,
        ("link", "nvlink", "transmit"): 160 * 2**20,
    }
    assert counts["profiled",] == 10
    counts = read()["GPU-1111"].counts
    assert (counts["profiled",], counts["busy", "sm"]) == (20, pytest.approx(17.5))


def test_samples_are_not_taken_faster_than_the_library_makes_them(h100, make_nvidia, clock):
    driver = make_nvidia(detail=True)
    told = []
    for wait_secs in (10, 10, 0.05, 0.05, 0.05):
        clock.advance(wait_secs)
        told.append(next(iter(driver.read())).counts.get(("profiled",)))
    assert told == [None, 10, 10, 10, pytest.approx(10.15)]


def test_a_sample_that_fails_is_counted_and_the_next_covers_its_time(h100, read, unreadable):
    read()
    h100("fail func=nvmlGpmSampleGet code=999 gpu=0")
    assert ("profiled",) not in read()["GPU-1111"].counts
    assert unreadable.counts == {"gpu_nvmlGpmSampleGet_999": 1}
    h100()
    counts = read()["GPU-1111"].counts
    assert (counts["profiled",], counts["busy", "sm"]) == (20, pytest.approx(10))


@pytest.mark.parametrize(
    ("answer", "counted"), [("60:e3", {}), ("60:e999", {"gpu_nvmlGpmMetricsGet_999": 1})]
)
def test_a_figure_that_is_not_supported_or_fails_costs_itself_alone(nvml, read, unreadable, answer, counted):
    nvml.say(nvml.DRIVER, f"{nvml.A100} gpm=2:50,{answer},61:-1,20:nan")
    read()
    assert set(read()["GPU-1111"].counts) == {("profiled",), ("busy", "sm"), ("xids",)}
    assert unreadable.counts == counted


def test_a_figure_beyond_what_a_card_can_do_is_refused_by_name(nvml, read, unreadable):
    nvml.say(nvml.DRIVER, f"{nvml.A100} gpm=2:50,3:4294967295,5:1000,20:4294967295,60:inf")
    read()
    assert set(read()["GPU-1111"].counts) == {("profiled",), ("busy", "sm"), ("xids",)}
    names = ("busy_warps", "busy_tensor", "link_pcie_transmit", "link_nvlink_receive")
    assert unreadable.counts == {f"gpu_refused_{name}": 1 for name in names}


def test_an_older_driver_is_no_failure(h100, read, unreadable):
    missing = ("GpmQueryDeviceSupport", "EventSetCreate", "DeviceGetRemappedRows",
               "DeviceGetSupportedClocksEventReasons", "DeviceGetCurrentClocksEventReasons")  # fmt: skip
    h100(*(f"fail func=nvml{name} code=13" for name in missing))
    read()
    sample = read()["GPU-1111"]
    assert {count[0] for count in sample.counts} == {"ecc", "lifetime_ecc"}
    assert sample.flags == {}
    assert sample.clock_reasons["power_cap"]  # by the function's former name
    assert unreadable.counts == {}


def test_memory_errors_and_rows_stand_by_kind(h100, read):
    sample = read()["GPU-1111"]
    assert {count: value for count, value in sample.counts.items() if len(count) == 2} == {
        ("ecc", "corrected"): 3,
        ("ecc", "uncorrected"): 0,
        ("lifetime_ecc", "corrected"): 17,
        ("lifetime_ecc", "uncorrected"): 1,
        ("remapped", "corrected"): 2,
        ("remapped", "uncorrected"): 1,
    }
    assert sample.flags == {"remap_pending": True, "remap_failed": False, "xids_watched": True}


def test_what_is_not_supported_is_missing_and_what_fails_is_counted(h100, read, unreadable):
    bare = read()["GPU-2222"]
    assert (bare.counts, bare.clock_reasons, bare.flags) == ({("xids",): 0}, {}, {"xids_watched": True})
    assert unreadable.counts == {}
    h100(
        "fail func=nvmlDeviceGetTotalEccErrors code=999 gpu=0",
        "fail func=nvmlDeviceGetRemappedRows code=4 gpu=0",
    )
    sample = read()["GPU-1111"]
    assert not {count for count in sample.counts if count[0] in {"ecc", "lifetime_ecc", "remapped"}}
    assert "remap_pending" not in sample.flags
    assert unreadable.counts == {
        "gpu_nvmlDeviceGetTotalEccErrors_999": 4,
        "gpu_nvmlDeviceGetRemappedRows_4": 1,
    }


def test_reasons_that_hold_clocks_are_those_that_the_card_can_tell(h100, read):
    assert read()["GPU-1111"].clock_reasons == {
        "application_clocks": False,
        "power_cap": True,
        "hardware_slowdown": False,
        "sync_boost": False,
        "software_thermal": False,
        "hardware_thermal": False,
        "power_brake": False,
        "display_clocks": False,
    }  # and not that it is idle


def xids(sample):
    return {count[1]: number for count, number in sample.counts.items() if count[0] == "xid"}


def test_xid_events_are_counted_by_card_and_code_from_the_start_on(h100, read):
    old = "xid gpu=0 code=13"  # before anybody watched
    h100(old)
    assert xids(read()["GPU-1111"]) == {}
    new = ["xid gpu=0 code=79", "xid gpu=1 code=31", "xid gpu=0 code=79", "xid gpu=0 code=48"]
    h100(old, *new)
    for _ in range(2):  # each counts once
        found = read()
        assert xids(found["GPU-1111"]) == {"79": 2, "48": 1}
        assert xids(found["GPU-2222"]) == {"31": 1}
        assert [gpu.counts["xids",] for gpu in found.values()] == [3, 1]


def test_of_a_storm_of_events_a_reading_takes_a_part_and_the_next_goes_on(h100, read, monkeypatch):
    monkeypatch.setattr(nvidiadetail, "MAX_EVENTS", 3)
    read()
    h100(*["xid gpu=0 code=31"] * 5)
    assert [xids(read()["GPU-1111"]) for _ in range(2)] == [{"31": 3}, {"31": 5}]


def test_events_that_cannot_be_received_are_told_and_watched_again_when_they_can(h100, read, unreadable):
    h100("fail func=nvmlDeviceRegisterEvents code=999 gpu=0")
    found = read()
    assert [gpu.flags["xids_watched"] for gpu in found.values()] == [False, True]
    assert [gpu.counts.get(("xids",)) for gpu in found.values()] == [None, 0]
    assert unreadable.counts == {"gpu_nvmlDeviceRegisterEvents_999": 1}
    h100()
    assert read()["GPU-1111"].flags["xids_watched"] is True
    h100("fail func=nvmlEventSetWait_v2 code=999")
    assert read()["GPU-1111"].flags["xids_watched"] is False
    h100()
    read()
    h100("xid gpu=0 code=79")
    assert xids(read()["GPU-1111"]) == {"79": 1}


def test_a_card_that_sends_no_events_is_not_said_to_be_watched(h100, read, unreadable):
    h100("fail func=nvmlDeviceRegisterEvents code=3")
    for _ in range(2):
        sample = read()["GPU-1111"]
        assert "xids_watched" not in sample.flags
        assert ("xids",) not in sample.counts
    assert unreadable.counts == {}


def test_a_card_that_is_lost_while_its_details_are_read_is_failing(h100, read):
    h100("fail func=nvmlDeviceGetTotalEccErrors code=15 gpu=0")
    found = read()
    assert (found["GPU-1111"].failing, found["GPU-2222"].failing) == (15, 0)


def divided(nvml, *instances):
    nvml.say(nvml.DRIVER, nvml.A100.replace("mig=0", "mig=1") + " gpm=2:80", *instances)


def test_an_instance_has_a_profile_and_events_of_its_own(nvml, read):
    divided(nvml, INSTANCE.format(sm=20))
    read()
    divided(
        nvml, INSTANCE.format(sm=40), "xid gpu=0 code=43 gi=1", "xid gpu=0 code=79", "xid gpu=0 code=13 gi=2"
    )
    found = read()
    assert found["MIG-3333"].counts == {
        ("profiled",): 10,
        ("busy", "sm"): pytest.approx(3),
        ("xids",): 1,
        ("xid", "43"): 1,
    }
    assert found["GPU-1111"].counts["busy", "sm"] == pytest.approx(8)
    assert xids(found["GPU-1111"]) == {"43": 1, "79": 1, "13": 1}  # the card's are all


def test_of_an_instance_that_is_divided_once_more_the_profile_is_nobodys(nvml, read):
    divided(
        nvml, INSTANCE.format(sm=20), INSTANCE.format(sm=20).replace("ci=0", "ci=1").replace("3333", "4444")
    )
    read()
    found = read()
    assert (found["MIG-3333"].counts, found["MIG-4444"].counts) == ({}, {})  # and whose an event is


def test_what_the_library_holds_for_us_is_freed(h100, make_nvidia, clock, unreadable):
    driver = make_nvidia(detail=True)
    for _ in range(3):
        clock.advance(10)
        list(driver.read())
    h100("fail func=nvmlGpmSampleFree code=999", "fail func=nvmlEventSetFree code=999")
    driver.close()
    # Two samples of the one card that has a profile, and a set for each card.
    assert unreadable.counts == {"gpu_nvmlGpmSampleFree_999": 2, "gpu_nvmlEventSetFree_999": 2}
