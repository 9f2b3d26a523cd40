"""The JSON Schema of a Struct type, in draft-07: the newest draft that yaml-language-server and the JetBrains editors both read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, get_origin

import msgspec
import msgspec.inspect as mi

from contract.errors import InternalError
from contract.findings import Json

DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"


def json_schema(type_: Any, *, id: str, title: str) -> dict[str, Json]:
    """The schema that accepts what ``load_typed`` accepts.

    A Struct may have a class variable ``json_schema_extra`` with what its fields alone do not say.

    Raises:
        InternalError: a Struct that allows unknown fields.
    """
    classes = list(dict.fromkeys(s.cls for s in _structs(mi.type_info(type_))))
    refs, components = msgspec.json.schema_components([type_, *classes], ref_template="#/definitions/{name}")
    names = {name: name for name in components}
    for cls, ref in zip(classes, refs[1:], strict=True):
        component, origin = components[_name(ref)], get_origin(cls)
        component.update(getattr(origin or cls, "json_schema_extra", {}))
        if component.get("additionalProperties") is not False:
            raise InternalError(f"{cls} must have forbid_unknown_fields=True")
        if origin is not None:
            # msgspec spells the parameters out: Statement_typing.Annotated_int__msgspec.Meta_ge_1____
            component["title"] = origin.__name__
            names[_name(ref)] = f"{origin.__name__}_{sum(get_origin(c) is origin for c in classes[: classes.index(cls) + 1])}"
    definitions = {names[name]: _draft_07(component, names) for name, component in components.items()}
    root = definitions.pop(names[_name(refs[0])])
    return {"$schema": DRAFT_07, "$id": id, **root, "title": title, "definitions": dict(sorted(definitions.items()))}


def _name(ref: dict[str, Any]) -> str:
    return str(ref["$ref"]).removeprefix("#/definitions/")


def _structs(type_: mi.Type) -> Iterator[mi.StructType]:
    """Every Struct type below a type, generic ones once per parameter."""
    seen: set[Any] = set()
    todo: list[Any] = [type_]
    while todo:
        current = todo.pop()
        if isinstance(current, mi.StructType):
            if current.cls in seen:
                continue
            seen.add(current.cls)
            yield current
            todo += [f.type for f in current.fields]
        elif isinstance(current, mi.UnionType):
            todo += current.types
        elif isinstance(current, mi.TupleType):
            todo += current.item_types
        elif isinstance(current, mi.DictType):
            todo += [current.key_type, current.value_type]
        elif isinstance(current, mi.Metadata):
            todo.append(current.type)
        else:
            todo += [t for t in [getattr(current, "item_type", None)] if t is not None]


def _draft_07(schema: Any, names: dict[str, str]) -> Any:
    """Rewrite what draft-07 says otherwise: siblings of ``$ref`` are ignored there, and tuples are arrays of ``items``."""
    if isinstance(schema, list):
        return [_draft_07(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: _draft_07_part(key, value, names) for key, value in schema.items()}
    if "$ref" in out and len(out) > 1:
        out["allOf"] = [{"$ref": out.pop("$ref")}]
    if "prefixItems" in out:
        out.pop("items", None)
        out["items"] = out.pop("prefixItems")
        out["additionalItems"] = False
    return out


def _draft_07_part(keyword: str, value: Any, names: dict[str, str]) -> Any:
    if keyword in ("enum", "default", "const"):
        return value
    if keyword == "$ref":
        return "#/definitions/" + names[_name({"$ref": value})]
    if keyword == "properties":
        return {name: _draft_07(member, names) for name, member in value.items()}
    return _draft_07(value, names)
