"""What an address of the page asks for; what is not known there counts for nothing."""

from jobfeatures_exporter.web.asked import AskedPage, parse_asked


def test_an_address_is_read_and_made():
    asked = parse_asked({"view": "dense", "sort": "wasted", "find": " ann "})
    assert asked == AskedPage(view="dense", sort="wasted", find="ann")
    assert asked.address() == "./?view=dense&sort=wasted"
    assert asked.address(view="") == "./?sort=wasted"
    assert asked.address(view="", sort="") == "./"
    assert asked.address(view="full") == "./?view=full&sort=wasted"
    assert parse_asked({"view": "full"}).address() == "./?view=full"


def test_what_is_not_known_counts_for_nothing():
    assert parse_asked({"view": "<b>", "sort": "'", "else": "x"}) == AskedPage()
    assert len(parse_asked({"find": "x" * 9999}).find) == 100


def test_a_job_is_asked_for_by_its_id_and_system():
    assert parse_asked({"system": "slurm", "view": "dense"}, "12") == AskedPage(job_id="12", system="slurm")
