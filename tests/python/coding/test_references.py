"""Tests of references: unique keys, DOIs and citations; editors; letters in names."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

from llamaherd.coding import references
from llamaherd.coding.references import GUIDELINES, REFERENCES, Reference, read_bibtex


def test_references_have_keys_and_addresses_of_their_own() -> None:
    dois = [work.fields["doi"] for work in REFERENCES.values() if "doi" in work.fields]
    assert len(set(dois)) == len(dois)
    for key, work in REFERENCES.items():
        assert work.bibtex.startswith(f"@{work.kind}{{{key},\n")
        assert work.bibtex.count("{") == work.bibtex.count("}")
        assert work.fields["year"] in work.short


def test_a_citation_in_words_means_one_work() -> None:
    twice = Counter(work.short for work in REFERENCES.values())
    assert [short for short, n in twice.items() if n > 1] == []
    both = [REFERENCES[key].short for key in ("zrnic2024", "zrnic2024active")]
    assert both == ["Zrnic and Cand\u00e8s 2024a", "Zrnic and Cand\u00e8s 2024b"]


def test_citations_in_words_have_letters_not_bibtex() -> None:
    for work in REFERENCES.values():
        assert not set("{}\\") & set(work.short)
    name = Reference("k", "misc", {"author": "Mu{\\~n}oz Bar{\\'o}n, A.", "year": "2025"})
    assert name.short == "Mu\u00f1oz Bar\u00f3n 2025"


def test_authors_that_are_not_all_named_are_et_al() -> None:
    reference = Reference(
        "k", "misc", {"author": "Baltes, Sebastian and others", "year": "2025"}
    )
    assert reference.short == "Baltes et al. 2025"
    assert "author = {Baltes, Sebastian and others}" in reference.bibtex


def test_an_edited_volume_has_editors() -> None:
    bibtex = REFERENCES["baumgartner2019"].bibtex
    assert "  editor = {Baumgartner, Frank R. and " in bibtex
    assert "author = " not in bibtex


def test_addresses() -> None:
    assert REFERENCES["cohen1968"].address == "doi:10.1037/h0026256"
    assert REFERENCES["fang2026"].address == "arXiv:2604.09638"
    assert REFERENCES["egami2023"].address == ""


def test_every_entry_of_the_file_is_read_and_written_as_it_stands() -> None:
    text = files(references).joinpath("references.bib").read_text(encoding="utf-8")
    assert text.count("@") == len(REFERENCES)
    keyword = "  keywords = {guideline},\n"
    assert text.count(keyword) == len(GUIDELINES) > 0
    for work in REFERENCES.values():
        assert work.bibtex in text.replace(keyword, "")
    assert read_bibtex("@misc{a,\n  year = {2020},\n}\n")["a"].fields == {"year": "2020"}
