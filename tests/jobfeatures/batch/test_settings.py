"""The settings that all batch systems' own extend."""

import pytest

from jobfeatures.batch import BatchSettings
from jobfeatures.batch.settings import AskingSettings
from jobfeatures.settings.resolve import settings_of


@pytest.mark.parametrize("own", BatchSettings.__bases__, ids=lambda each: each.__name__)
def test_a_batch_systems_settings_are_its_own_and_those_of_asking(own):
    shared = {each.key for each in settings_of(AskingSettings)}
    keys = {each.key for each in settings_of(own)}
    assert shared < keys
    assert len(keys) <= 13
