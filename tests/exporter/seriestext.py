"""Series as tests name them: by the text of their labels."""

from jobfeatures_exporter.families.exposition import Family, label_text


def labelled(family: Family) -> list[tuple[str, float]]:
    """Return the samples of a family by their labels as text."""
    return [(label_text(family.metric.label_names, values)[1:-1], value) for values, value in family.samples]
