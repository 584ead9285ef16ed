"""Tables of words: whatever separates columns and words, and tables that hold something else."""

import pytest

from visionnmf.apps.annotation.images import images_with_words, read_words
from visionnmf.exceptions import ParameterError, UnreadableError

EXPECTED = {"1.jpeg": ["city", "blue mountain", "sky"], "2, new.jpeg": ["sea"]}
TABLES = {
    "columns": '1.jpeg,city,blue mountain,sky\n"2, new.jpeg",sea\n',
    "a list in quotes": '1.jpeg,"city, blue mountain, sky"\n"2, new.jpeg",sea\n',
    "semicolons in a cell": '1.jpeg,city; blue mountain;sky\n"2, new.jpeg",sea\n',
    "bars in a cell": '1.jpeg,city|blue mountain|sky\n"2, new.jpeg",sea\n',
    "a list of Python": """1.jpeg,"['city', 'blue mountain', 'sky']"\n"2, new.jpeg",['sea']\n""",
    "a set of Python": """1.jpeg,"{""city"", 'blue mountain', sky}"\n"2, new.jpeg",{'sea'}\n""",
    "semicolons between columns": '1.jpeg;city,blue mountain,sky\n"2, new.jpeg";sea\n',
    "tabs between columns": "1.jpeg\tcity, blue mountain, sky\n2, new.jpeg\tsea\n",
}
HEADINGS = ("photo{}keywords", "Image{}Tags", "anything{}labels", "file_name{}what")


@pytest.fixture
def empty_photos(tmp_path):
    """A folder of 36 files without content that are called as photographs."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(36):
        (folder / f"{i}.png").touch()
    return folder


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("heading", ["", *HEADINGS])
def test_words_are_found_in_any_form(tmp_path, name, heading):
    path = tmp_path / "words.csv"
    mark = "\t" if name.startswith("tabs") else ";" if "between" in name else ","
    path.write_text((heading.format(mark) + "\n" if heading else "") + TABLES[name])
    assert read_words(path) == EXPECTED


@pytest.mark.parametrize("cells", ["1,0", "1,0,0,1", "True,False", "1.0,0.0,1.0"])
def test_a_column_for_each_word_is_refused(empty_photos, tmp_path, cells):
    path = tmp_path / "words.csv"
    path.write_text("image,city,sea,sky,tree\n" + "".join(f"{i}.png,{cells}\n" for i in range(36)))
    with pytest.raises(UnreadableError, match=r"words\.csv: holds .* in columns; write the words of each image"):
        images_with_words(empty_photos, path, None)
    assert read_words(path)["3.png"][0] in ("1", "True", "1.0")


@pytest.mark.parametrize("form", ["{i}.png,a{i} sea b{i}\n", "{i}.png,w{i},x{i}\n", "{i}.png,caption number {i}\n"])
def test_a_table_in_which_words_do_not_repeat_is_refused(empty_photos, tmp_path, form):
    path = tmp_path / "words.csv"
    path.write_text("".join(form.format(i=i) for i in range(36)))
    with pytest.raises(UnreadableError, match=r"words\.csv: .* words occur only once, such as '.*0.*'; put each word"):
        images_with_words(empty_photos, path, None)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("{0} {1}", "one text for each image, such as 'city sea'"),
        ("{0}/{1}", "one text for each image"),
        ("#{0} #{1}", "one text for each image"),
        ("'{0}' '{1}'", "one text for each image"),
        ("0.8,{0}", r"numbers beside words, such as 0\.8; leave out"),
        ("12345,{0},{1}", "numbers beside words, such as 12345"),
        ("{0},{1}", None),
        ("golden {0}", None),
        ("{0} dog,{1}", None),
        ("1999", None),
    ],
)
def test_lists_without_commas_and_columns_of_numbers_are_refused(empty_photos, tmp_path, form, message):
    words = ["city", "sea", "sky", "tree", "hill", "snow"]
    rows = (form.format(words[i % 6], words[(i + 1 + i // 12) % 6]) for i in range(36))
    (tmp_path / "words.csv").write_text("".join(f"{i}.png,{row}\n" for i, row in enumerate(rows)))
    error, match = (UnreadableError, message) if message else (ParameterError, "source must be a table of features")
    with pytest.raises(error, match=match):
        images_with_words(empty_photos, tmp_path / "words.csv", None)
