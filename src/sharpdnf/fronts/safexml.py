"""XML from strangers: elements with their line, and nothing that a file could use against its reader.

Entities are refused, nothing is ever fetched, and size, depth, number of elements and length of names are limited. It
is built on expat directly; the standard library's tree builders know neither limits nor lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

from sharpdnf.errors import ParseError

MAX_BYTES = 256 << 20
MAX_DEPTH = 150
"""How deep elements may be nested: formulas are read by functions that call themselves once or twice per level."""
MAX_ELEMENTS = 3_000_000
MAX_ATTRIBUTES = 32
MAX_NAME = 1000
"""The most characters of a tag, or of an attribute's name or value."""
MAX_TEXT = 1 << 20
"""The most characters of text in one element."""
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: a file and a line in it."""

    file: str
    line: int

    def error(self, message: str) -> ParseError:
        return ParseError(message, file=self.file, line=self.line)


@dataclass(slots=True, eq=False)
class Element:
    """An XML element with its attributes, its children and the place where it stands in its file."""

    tag: str
    attributes: dict[str, str]
    place: Place
    children: list[Element] = field(default_factory=list)
    text: str = ""
    """The text directly in the element, without that of its children."""

    def error(self, message: str) -> ParseError:
        return self.place.error(message)


def shown(text: str, length: int = 60) -> str:
    """The text as a message may quote it: in quotes, cut where it is too long to read."""
    return repr(text if len(text) <= length else f"{text[:length]}...")


class _XmlReader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.open: list[Element] = []
        self.root: Element | None = None
        self.elements = 0
        parser = self.parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.StartDoctypeDeclHandler = self.doctype
        parser.EntityDeclHandler = self.entity
        parser.SkippedEntityHandler = self.entity

    @property
    def place(self) -> Place:
        return Place(self.file, self.parser.CurrentLineNumber)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        place = self.place
        self.elements += 1
        if self.elements > MAX_ELEMENTS:
            raise place.error(f"more than {MAX_ELEMENTS} elements")
        if len(self.open) >= MAX_DEPTH:
            raise place.error(f"elements are nested more than {MAX_DEPTH} deep")
        if len(attributes) > MAX_ATTRIBUTES:
            raise place.error(f"more than {MAX_ATTRIBUTES} attributes")
        for word in (tag, *attributes, *attributes.values()):
            if len(word) > MAX_NAME:
                raise place.error(f"a name or value of {len(word)} characters, more than {MAX_NAME}: {shown(word)}")
        element = Element(tag, attributes, place)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, _: str) -> None:
        self.open.pop()

    def characters(self, text: str) -> None:
        element = self.open[-1]
        if len(element.text) + len(text) > MAX_TEXT:
            raise self.place.error(f"more than {MAX_TEXT} characters of text in <{element.tag}>")
        element.text += text

    def doctype(self, name: str, system: str | None, public: str | None, subset: bool) -> None:
        if system or public or subset:
            raise self.place.error(
                "a document type with declarations of its own or from elsewhere is not read (it can define entities): "
                f"write <!DOCTYPE {name[:MAX_NAME]}> or leave it out"
            )

    def entity(self, name: str, *_: object) -> None:
        raise self.place.error(f"the entity {shown(name)} is not read: write what it stands for")


def parse_xml(data: bytes, file: str) -> Element:
    """The root element. Everything that is wrong with the file is a ParseError with its line."""
    if len(data) > MAX_BYTES:
        raise ParseError(f"more than {MAX_BYTES} bytes", file=file)
    reader = _XmlReader(file)
    try:
        for start in range(0, len(data), CHUNK):
            reader.parser.Parse(data[start : start + CHUNK], False)
        reader.parser.Parse(b"", True)
    except expat.ExpatError as error:
        message = expat.errors.messages.get(error.code, "not well-formed")
        raise Place(file, error.lineno).error(f"not XML: {message}") from None
    except (ValueError, LookupError) as error:  # an encoding that Python does not know
        raise reader.place.error(f"not XML: {error}") from None
    assert reader.root is not None, "expat refuses a document without an element"
    return reader.root
