"""The fields of a model's state: how values become JSON and arrays, and what must hold of them.

See :mod:`visionnmf.io.model_file` for how a state is declared and what its files are.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visionnmf._checks import shown
from visionnmf.exceptions import ParameterError

from .npz_files import NUMBERS


class StateError(ValueError):
    """A value does not fit its field."""


# True states have less than ten levels. Python's own limit for recursion differs from version to version.
MAX_DEPTH = 50


class Place:
    """Where a value stands in the tree of a state, the arrays of the file, and the sizes of dimensions so far."""

    def __init__(self, name: str, arrays: MutableMapping[str, Any], sizes: ChainMap[str, int]) -> None:
        # The path from the state to the value, such as "model.codes.0", empty for the state itself; the arrays of the
        # file, by the names of their places; and the dimensions that have a size so far, such as {"height": 120}.
        self.name, self.arrays, self._sizes = name, arrays, sizes

    def __truediv__(self, key: str | int) -> Place:
        """Return the place of the part `key`, such as "model.codes" in "model"; it shares arrays and sizes."""
        name = f"{self.name}.{key}".lstrip(".")
        if name.count(".") > MAX_DEPTH:
            raise StateError(f"{name:.60} is nested more than {MAX_DEPTH} levels deep")
        return Place(name, self.arrays, self._sizes)

    def inside(self) -> Place:
        """Return the same place with a scope of its own, in which new sizes of dimensions hold for its parts only."""
        return Place(self.name, self.arrays, self._sizes.new_child())

    def apart(self, **sizes: int) -> Place:
        """Return the same place for a part with dimensions of its own, of which only these have a size so far.

        An array below it then need not agree with arrays elsewhere that name the same dimension. A size is given as
        ``features=300``.
        """
        return Place(self.name, self.arrays, ChainMap(sizes))

    def size(self, dimension: str | float) -> float:
        """Return a number, or the size of a named dimension or product, ``"height*width"``; KeyError without one."""
        if not isinstance(dimension, str):
            return dimension
        return math.prod(int(part) if part.isdigit() else self._sizes[part] for part in dimension.split("*"))

    def fits(self, dimension: str, size: int) -> bool:
        """Return whether a dimension has this size; a name that stands for nothing yet stands for it from now on."""
        if dimension.isidentifier() and dimension not in self._sizes:  # a name, not a product or a number
            self._sizes[dimension] = size
        return self.size(dimension) == size

    def require(self, holds: Any, wanted: str, value: Any = None) -> None:
        """Raise StateError "... must be `wanted`" unless a condition holds; `value`, if given, was found instead."""
        if not holds:
            found = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else shown(value)
            raise StateError(
                f"{self.name or 'the state'} must be {wanted}" + ("" if value is None else f"; got {found}")
            )


class Field:
    """A part of a state: how it becomes JSON and arrays, and what must hold of it."""

    def pack(self, value: Any, place: Place) -> Any:
        """Check a value, put its arrays into ``place.arrays``, and return the rest as JSON."""
        # a value that is JSON already is stored as it is; unpack checks it
        return self.unpack(value, place)

    def unpack(self, item: Any, place: Place) -> Any:
        """Check what :meth:`pack` returned, the JSON `item` at this place, and give the value back."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class _Ranged(Field):
    """Numbers from `low` up to `high`, more than `above`, less than `below`; a limit can name a dimension."""

    low: float | str | None = None
    high: float | str | None = None
    above: float | str | None = None
    below: float | str | None = None

    def _check_range(self, least: Any, largest: Any, place: Place) -> None:
        """Raise StateError if a number is beyond `low`, `high` (allowed themselves), `above` or `below` (not)."""
        for limit, wanted, number, holds in (
            (self.low, ">=", least, lambda limit: least >= limit),
            (self.high, "<=", largest, lambda limit: largest <= limit),
            (self.above, ">", least, lambda limit: least > limit),
            (self.below, "<", largest, lambda limit: largest < limit),
        ):
            if limit is not None:  # a number, or the name of a dimension, whose size the place knows
                place.require(holds(place.size(limit)), f"{wanted} {limit}", number)


@dataclass(frozen=True)
class Array(_Ranged):
    """An array of numbers, which are finite unless `finite` is false.

    `dtype` names the dtype, or several of which one may be chosen. `shape` names each dimension; one with a question
    mark is not there if its size is 1. Unless `empty` is true there must be at least one number. `increasing` is for
    one dimension.
    """

    dtype: str
    shape: str
    increasing: bool = False
    empty: bool = False
    finite: bool = True

    def pack(self, value: Any, place: Place) -> str:
        """Store the array, cast to the field's integers, under the name of its place, and return a mark.

        `dtype` has the allowed names, separated by spaces; a field of integers has one name only.
        """
        array = np.asarray(value)
        if array.dtype.kind in "iu" and array.dtype.name not in self.dtype.split():  # integers of another width
            array = array.astype(self.dtype, casting="same_kind")
        self._check(array, place)
        # ascontiguousarray gives an array without dimensions one; reshape takes it away again.
        place.arrays[place.name] = np.ascontiguousarray(array).reshape(array.shape)
        return "array"

    def unpack(self, item: Any, place: Place) -> NDArray[Any]:
        """Return the array that is stored under the name of its place, after checking it; `item` is its mark."""
        place.require(item == "array", "an array", item)
        array: NDArray[Any] = place.arrays[place.name]
        self._check(array, place)
        return array

    def _check(self, array: NDArray[Any], place: Place) -> None:
        """Raise StateError if the type, the shape or the values do not fit the field.

        `shape` names the dimensions, as in "n height*width", and `dtype` the types that are allowed. A last dimension
        that ends in ``?`` is left out if its size is 1. A dimension without a size yet gets that of the array, which
        later arrays must then have as well. `finite` and `increasing` are required of the values if true, and `empty`
        says whether there may be none.
        """
        dimensions = self.shape.split()
        if dimensions and dimensions[-1].endswith("?"):
            last = dimensions.pop()[:-1]
            dimensions += [last] if place.size(last) > 1 else []
        fits = array.dtype.name in self.dtype.split() and array.ndim == len(dimensions)
        fits = fits and all(place.fits(*pair) for pair in zip(dimensions, array.shape, strict=True))
        fits = fits and (array.size > 0 or self.empty)
        place.require(fits, f"{self.dtype.replace(' ', ' or ')} of shape ({', '.join(dimensions)})", array)
        if array.size:
            least, largest = array.min().item(), array.max().item()
            if self.finite:  # NaN would be both the least and the largest
                place.require(math.isfinite(least) and math.isfinite(largest), "finite")
            self._check_range(least, largest, place)
        place.require(not self.increasing or (array[1:] > array[:-1]).all(), "increasing")


@dataclass(frozen=True)
class Number(_Ranged):
    """A finite number; `also` names infinities or NaN that are allowed besides."""

    also: tuple[float, ...] = ()

    def pack(self, value: Any, place: Place) -> Any:
        """Return the number for JSON, which has no infinities and no NaN: those become texts."""
        value = value.item() if isinstance(value, np.generic) else value
        value = str(value) if isinstance(value, float) and not math.isfinite(value) else value
        self.unpack(value, place)  # raises StateError if it does not fit
        return value

    def unpack(self, item: Any, place: Place) -> float:
        """Return the number after checking it; texts are allowed only for the infinities and NaN in `also`."""
        if item in map(str, self.also):
            return float(item)
        # 1e308 is near the largest float: whole numbers in JSON may be larger, and NaN is not below it either
        fits = isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < 1e308
        place.require(fits, "a finite number", item)
        self._check_range(item, item, place)  # it is both the least and the largest
        number: float = item
        return number


@dataclass(frozen=True)
class Whole(_Ranged):
    """A whole number from 0 to 2**53, if nothing else is said; the size of the dimension `size`, if that is given."""

    low: float | str | None = 0
    high: float | str | None = 1 << 53
    size: str = ""

    def pack(self, value: Any, place: Place) -> int:
        """Return the number as an int of Python, which `unpack` checks; `place` names it in messages."""
        return self.unpack(value.item() if isinstance(value, np.generic) else value, place)

    def unpack(self, item: Any, place: Place) -> int:
        """Return the number after checking its type, its range and, if it counts the dimension `size`, that size."""
        place.require(type(item) is int, "a whole number", item)
        self._check_range(item, item, place)  # it is both the least and the largest
        place.require(not self.size or place.fits(self.size, item), f"the number of {self.size}", item)
        number: int = item
        return number


@dataclass(frozen=True)
class Text(Field):
    """Text; one of `choices`, if those are given."""

    choices: tuple[str, ...] = ()

    def unpack(self, item: Any, place: Place) -> str:
        """Return the text after checking it; `pack` is the same."""
        place.require(isinstance(item, str), "text", item)
        place.require(not self.choices or item in self.choices, f"one of {', '.join(self.choices)}", item)
        return str(item)


class Flag(Field):
    """True or False."""

    def unpack(self, item: Any, place: Place) -> bool:
        """Return True or False after checking it; `pack` is the same."""
        place.require(isinstance(item, bool | np.bool_), "True or False", item)
        return bool(item)


class FrameShape(Field):
    """The shape of grey or colour frames, (height, width) or (height, width, 3); names height, width and channels."""

    def pack(self, value: Any, place: Place) -> list[int]:
        """Return the shape as a list, because JSON has no tuples; `unpack` checks it and its sizes."""
        return list(self.unpack([int(size) for size in value], place))

    def unpack(self, item: Any, place: Place) -> tuple[int, ...]:
        """Return the shape as a tuple after checking it; it gives height, width and channels their sizes."""
        fits = isinstance(item, list) and (len(item) == 2 or (len(item) == 3 and item[2] == 3))
        place.require(fits and all(type(size) is int and size > 0 for size in item), "a height and a width", item)
        named = zip(("height", "width", "channels"), (*item, 1), strict=False)  # grey frames have 1 channel
        place.require(all([place.fits(*pair) for pair in named]), "the height and the width", item)
        return tuple(item)


@dataclass(frozen=True)
class Maybe(Field):
    """A field that may be None."""

    field: Field

    def pack(self, value: Any, place: Place) -> Any:
        """Return a value as JSON by the inner field, which puts arrays into ``place.arrays``; None stays None."""
        return None if value is None else self.field.pack(value, place)

    def unpack(self, item: Any, place: Place) -> Any:
        """Unpack an item by the inner field, unless it is None, which stays None."""
        return None if item is None else self.field.unpack(item, place)


@dataclass(frozen=True)
class List(Field):
    """A list of values of one field; its length is the dimension `size`, if that is given."""

    field: Field
    size: str = ""
    distinct: bool = False
    empty: bool = False
    make: Callable[[list[Any]], Any] = list

    def pack(self, value: Any, place: Place) -> list[Any]:
        """Pack each value by the inner field; new sizes of dimensions hold within an item only, so items may differ."""
        items = [self.field.pack(item, (place / i).inside()) for i, item in enumerate(value)]
        self._check(items, place)
        return items

    def unpack(self, item: Any, place: Place) -> Any:
        """Unpack each item by the inner field, and return what `make` builds from the list of values.

        Arrays name their dimensions, such as "features", and those that name the same one must agree in its size.
        Within an item (`inside` its place) names that are new get sizes for this item only.
        """
        place.require(isinstance(item, list), "a list", item)
        self._check(item, place)
        return self.make([self.field.unpack(part, (place / i).inside()) for i, part in enumerate(item)])

    def _check(self, items: list[Any], place: Place) -> None:
        """Raise StateError unless the number of items is right and items that must be distinct differ.

        `size` names a dimension ("" for none), whose size elsewhere in the state the number of items must be.
        """
        place.require(items or self.empty, "a list of at least one")
        place.require(not self.size or place.fits(self.size, len(items)), f"as long as there are {self.size}")
        place.require(not self.distinct or len(set(items)) == len(items), "different from each other")


@dataclass(frozen=True)
class Record(Field):
    """Named fields: items of a dict, except `Maybe` ones if missing, or attributes of what `make` builds."""

    fields: Mapping[str, Field]
    make: Callable[..., Any] = dict

    def pack(self, value: Any, place: Place) -> dict[str, Any]:
        """Pack the items of a dict, or the attributes of an object, each by its field, ``place / name``.

        `_present` leaves out optional items that are missing, and raises for others.
        """
        values = value if isinstance(value, Mapping) else {name: getattr(value, name) for name in self.fields}
        return {name: field.pack(values[name], place / name) for name, field in self._present(values, place)}

    def unpack(self, item: Any, place: Place) -> Any:
        """Unpack each item by its field, and return what `make` builds; names without a field are refused.

        `_present` leaves out optional items that are missing, and raises for others.
        """
        place.require(isinstance(item, dict) and not set(item) - set(self.fields), f"of {', '.join(self.fields)}", item)
        return self.make(**{name: field.unpack(item[name], place / name) for name, field in self._present(item, place)})

    def _present(self, values: Mapping[str, Any], place: Place) -> list[tuple[str, Field]]:
        """Return name and field of each item of `values`; raise StateError if one that is required is missing."""
        for name, field in self.fields.items():
            (place / name).require(name in values or isinstance(field, Maybe), "there")
        return [(name, field) for name, field in self.fields.items() if name in values]


NO_CLASSES: dict[str, type] = {}


@dataclass(frozen=True)
class Value(Field):
    """Any value of a parameter, which its owner checks: None, numbers, text, lists, tuples, dicts, slices, arrays.

    `find_class` returns the class of another object with parameters, by its name, or raises KeyError. Callables and
    generators of random numbers become None, since a fitted model does not need them.
    """

    find_class: Callable[[str], type] = NO_CLASSES.__getitem__

    def pack(self, value: Any, place: Place) -> Any:
        """Return a parameter as JSON; tuples, slices, arrays and objects become dicts, their kind the only key."""
        import scipy.sparse as sp

        value = value.item() if isinstance(value, np.generic) else value
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, list):
            return [self.pack(item, place / i) for i, item in enumerate(value)]  # place / i: that of item i
        if isinstance(value, tuple):
            return {"tuple": self.pack(list(value), place)}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"dict": [list(value), self.pack(list(value.values()), place)]}
        if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS and value.dtype.itemsize <= 8:
            place.arrays[place.name] = np.ascontiguousarray(value).reshape(value.shape)
            return {"array": None}  # `unpack` finds the array by the name of the same place
        if isinstance(value, np.ndarray) and value.ndim == 1 and all(isinstance(item, str) for item in value.tolist()):
            return {"strings": value.tolist()}
        if sp.issparse(value):
            csr = sp.csr_array(value)
            return {"csr": [list(csr.shape), self.pack([csr.data, csr.indices, csr.indptr], place)]}
        if hasattr(value, "get_params") and self._knows(type(value)):
            return {"object": [type(value).__name__, self.pack(value.get_params(deep=False), place)]}
        if callable(value) or isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # a fitted model does not need them
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise StateError(f"{place.name} must be a number, text, an array or a penalty; got {kind}")

    def _knows(self, kind: type) -> bool:
        """Return whether objects of a class can be made again from their parameters: `find_class` must return it."""
        try:
            return self.find_class(kind.__name__) is kind
        except KeyError:
            return False

    def unpack(self, item: Any, place: Place, kind: type = object) -> Any:
        """Return what :meth:`pack` made `item` of, which must be an instance of `kind`; a dict names a form.

        `place` has the name under which an array is stored; the parts of a list have longer names, ``place / i``.
        """
        found = item
        if isinstance(item, list):
            found = [self.unpack(part, place / i) for i, part in enumerate(item)]
        elif isinstance(item, dict):
            ((form, content),) = item.items()  # always one key: the form of a value that JSON cannot hold
            found = self._unpack_form(form, content, place)
        place.require(isinstance(found, kind), f"a {kind.__name__}", item)
        return found

    def _unpack_form(self, form: str, content: Any, place: Place) -> Any:
        """Return a value that JSON cannot hold from the `content` that :meth:`pack` stored under the name `form`.

        An array is stored under the name of its `place`. `unpack` adds the number of an item to the place, so several
        arrays have names of their own; its third argument is the type that is expected.
        """
        match form:
            case "float":
                place.require(content in ("inf", "-inf", "nan"), "a number", content)
                return float(content)
            case "tuple":
                return tuple(self.unpack(content, place, list))
            case "slice":
                place.require(all(part is None or type(part) is int for part in content), "a slice", content)
                return slice(*content)
            case "dict":
                keys, values = content
                return dict(zip(_strings(keys, place), self.unpack(values, place, list), strict=True))
            case "array":
                return place.arrays[place.name]
            case "strings":
                return np.array(_strings(content, place), object)
            case "csr":
                import scipy.sparse as sp

                shape, parts = content
                place.require(all(type(size) is int for size in shape) and len(shape) == 2, "a sparse matrix", shape)
                matrix = sp.csr_array(tuple(self.unpack(parts, place, list)), shape=tuple(shape))
                matrix.check_format(full_check=True)  # whether its arrays fit together
                return matrix
            case "object":
                name, parameters = content
                return make_object(self.find_class(name), self.unpack(parameters, place, dict), place)
        raise StateError(f"{place.name} is of an unknown form")


def _strings(content: Any, place: Place) -> list[str]:
    """Return `content`, from the JSON of a file, as a list of texts; raise StateError if it is not one."""
    place.require(isinstance(content, list) and all(isinstance(part, str) for part in content), "text", content)
    return list(content)


class Restorable:
    """An estimator that can come from a file."""

    def _restored(self) -> None:
        """Check what comes from a file and derive what it does not hold; raise ValueError or TypeError."""


@dataclass(frozen=True)
class Estimator(Field):
    """A fitted `Restorable` estimator: parameters, and the attributes that `states` declares for its class.

    `sizes` says what dimensions of its arrays are in terms of those outside: ``(("features", "height*width"),)``.
    """

    states: Mapping[str, Mapping[str, Field]]
    find_class: Callable[[str], type]
    parameters: Value = Value()
    sizes: tuple[tuple[str, str], ...] = ()

    def pack(self, model: Any, place: Place) -> dict[str, Any]:
        """Return class, parameters and fitted attributes as JSON; raise ParameterError for undeclared classes.

        `states` declares the fitted attributes of each class. `place` names the model in messages and keeps its arrays;
        that of the fitted attributes knows only the model's own dimensions.
        """
        from sklearn.utils.validation import check_is_fitted

        kind = type(model)
        name = kind.__name__
        if name not in self.states or kind is not self.find_class(name):
            raise ParameterError(f"model must be one of {sorted(self.states)}; got a {name}, whose parts can be saved")
        parameters = model.get_params(deep=False)
        check_is_fitted(model)
        return {
            "class": name,
            "parameters": self.parameters.pack(parameters, place / "parameters"),
            "fitted": Record(self.states[name]).pack(vars(model), self._fitted_place(place)),
        }

    def unpack(self, item: Any, place: Place) -> Any:
        """Make a model from what :meth:`pack` returned; its parameters and attributes are all checked.

        `states` declares the fitted attributes of each class. Their dimensions are the model's own: `_fitted_place`.
        """
        name = Text(tuple(self.states)).unpack(item["class"], place)
        parameters = self.parameters.unpack(item["parameters"], place / "parameters", dict)
        seed = parameters.get("random_state")  # generators were not stored, so only a whole number can stand here
        place.require(seed is None or type(seed) is int, "of a seed that is a whole number", seed)
        model = make_object(self.find_class(name), parameters, place)
        for key, value in Record(self.states[name]).unpack(item["fitted"], self._fitted_place(place)).items():
            setattr(model, key, value)
        model._restored()  # checks what came from the file, and derives what the file does not hold
        return model

    def _fitted_place(self, place: Place) -> Place:
        """Return the place of the fitted attributes, with the model's own names of dimensions and their known sizes.

        A place knows the sizes of the dimensions of arrays by name. A model's "features" are others than those of the
        state that contains the model, so :meth:`Place.apart` begins with the names in `sizes` only: pairs of a name in
        the model and of the name or product that it stands for outside, such as "height*width".
        """
        return place.apart(**{name: int(place.size(size)) for name, size in self.sizes})


def make_object(cls: type, parameters: dict[str, Any], place: Place) -> Any:
    """Return an object made of parameters by name; raise StateError, with its place, if the class lacks one."""
    unknown = sorted(set(parameters) - set(signature(cls).parameters))
    place.require(not unknown, f"a {cls.__name__} of parameters that this version has", unknown[:1])
    return cls(**parameters)
