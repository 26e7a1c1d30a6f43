"""Every page: its links, the files that it names, its commands with their options, and public names are there."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

import majorcert as mc
from majorcert.commands.app import app

ROOT = Path(__file__).parents[2]
ROOMS = [path.name for path in sorted((ROOT / "src" / "majorcert").iterdir()) if path.is_dir()]
TOPS = ("benchmarks", "docs", "examples", "fuzz", "proofs", "results", "src", "studies", "tests")
NAMED = re.compile(rf"`((?:{'|'.join([*ROOMS, *TOPS])})/[\w./-]*)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(page for top in TOPS for page in (ROOT / top).rglob("*.md"))])


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)) for title in titles]
    return {title.strip().lower().replace(" ", "-") for title in plain}


def dead_links(page: Path) -> list[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    dead = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(link)
    return dead


def dead_names(page: Path) -> list[str]:
    """Files and folders in backquotes that are neither in the package nor at the root nor beside the page."""
    named = set(NAMED.findall(FENCE.sub("", page.read_text(encoding="utf-8"))))
    places = (ROOT, ROOT / "src" / "majorcert", page.parent)
    return sorted(name for name in named if not any((place / name).exists() for place in places))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_leads_to_what_is_there(page: Path) -> None:
    assert not dead_links(page)
    if page.name != "CHANGELOG.md":
        assert not dead_names(page)


def dead_options(text: str) -> list[str]:
    """Verbs of the command line and their options, and targets of make, that do not exist."""
    known = {
        name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        for name, command in get_command(app).commands.items()
    }
    dead = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        for verb, rest in re.findall(r"majorcert ([a-z]+)\b((?: [^`&|;#]*)?)", line):
            options = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", rest)) - {"--help"}
            if options and verb in known:
                dead += [f"{verb} {option}" for option in sorted(options - known[verb])]
            elif options:
                dead.append(verb)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dead + [f"make {name}" for name in re.findall(r"[`\n]make ([a-z-]+)", text) if name not in targets]


def test_commands_have_these_options() -> None:
    assert {page.name: dead for page in pages() if (dead := dead_options(page.read_text(encoding="utf-8")))} == {}
    assert dead_options("majorcert vote a --limit 3 --gone x\nmajorcert fly --high\n`make hay`") == [
        "vote --gone",
        "fly",
        "make hay",
    ]


def test_pages_use_public_names() -> None:
    for page in pages():
        used = set(re.findall(r"\bmc\.([A-Za-z_]+)", page.read_text(encoding="utf-8")))
        assert sorted(used - set(mc.__all__)) == [], page


def test_the_version_is_the_same_everywhere() -> None:
    for name, line in (
        ("pyproject.toml", 'version = "{}"'),
        ("CITATION.cff", "version: {}"),
        ("CHANGELOG.md", "## {}"),
    ):
        assert line.format(mc.__version__) in (ROOT / name).read_text(encoding="utf-8").splitlines(), name


def test_what_is_not_there_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page\n[here](#a-page) [there](no.md) [nowhere](#b) `core/gone.py` `core/tally.py` `docs/`\n")
    assert dead_links(page) == ["no.md", "#b"]
    assert dead_names(page) == ["core/gone.py"]
