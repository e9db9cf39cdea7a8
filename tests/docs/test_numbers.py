"""Numbers that pages quote are those that hdrl computes or claims."""

import re

import pytest

from hdrl.metrics.planning import fewest_windows, windows_needed

from . import quotes

COMPARING = quotes.text_of("docs/comparing.md")
README = quotes.text_of("README.md")


def test_windows_that_a_change_needs():
    (said,) = re.findall(r"a change of 20 % needs about (\d+) windows, 10 % (\d+), 5 % (\d+)", COMPARING)
    for change, windows in zip((0.2, 0.1, 0.05), said, strict=True):
        assert int(windows) == pytest.approx(windows_needed(1 - change, 0.35), rel=0.05)


def test_windows_of_the_readme_can_show_something():
    (windows,) = re.findall(r"--windows \d+:(\d+) --baseline best", README)
    assert int(windows) >= fewest_windows(3)


@pytest.mark.parametrize("page", quotes.pages())
def test_quoted_numbers_are_those_that_experiments_claim(page: str):
    text, stale = quotes.text_of(page), []
    for quote in quotes.quotes():
        if quote.page == page and quote.experiment != quotes.NOWHERE:
            found = quote.match(text).groups()
            claimed = quote.claimed(found)
            if list(found) != claimed:
                stale.append(f"{quote.before} {found}: {quote.experiment} claims {claimed}")
    assert not stale, f"{page}; python tests/docs/quotes.py writes what is claimed:\n" + "\n".join(stale)


@pytest.mark.parametrize("page", quotes.pages())
def test_every_quoted_interval_names_its_claim_or_says_where_it_is_from(page: str):
    text = quotes.text_of(page)
    known = {one.match(text).start(1) for one in quotes.quotes() if one.page == page and one.form == "interval"}
    unknown = [one.group() for one in quotes.INTERVAL.finditer(text) if one.start() not in known]
    assert not unknown, f"{page} quotes {', '.join(unknown)}; tests/docs/quotes.csv must name their claims"


def test_a_stale_number_is_found():
    (quote, *_) = [one for one in quotes.quotes() if one.experiment == "es-generalist" and one.form == "interval"]
    text = quotes.text_of(quote.page)
    match = quote.match(text)
    stale = text[: match.start(1)] + "0.99" + text[match.end(1) :]
    found = quote.match(stale).groups()
    assert found[0] == "0.99"
    assert quote.claimed(found)[0] != "0.99"
    with pytest.raises(ValueError, match="0 places have a number behind"):
        quote._replace(before="nothing like this").match(text)
