"""What type checkers read of the package is what there is."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import carried

import gpunet
from gpunet import _gpunet, device
from gpunet._stub import Stub

PACKAGE = Path(gpunet.__file__).parent


def _declared():
    """The names of the stub file, each with its parameters, or for a class with its methods."""
    names = {}
    for node in ast.parse((PACKAGE / "_gpunet.pyi").read_text()).body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = {part.name: _parameters(part) for part in node.body if isinstance(part, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = _parameters(node)
        elif isinstance(node, ast.AnnAssign):
            names[node.target.id] = None
    return names


def _parameters(function):
    return [part.arg for part in function.args.args if part.arg != "self"]


def _there(function):
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_the_stub_file_declares_what_the_extension_module_has():
    declared = _declared()
    there = {name for name in vars(_gpunet) if not name.startswith("__") or name == "__version__"}
    assert set(declared) == there
    for name, of in declared.items():
        made = getattr(_gpunet, name)
        if isinstance(of, list):
            assert of == _there(made), name
        elif isinstance(of, dict):
            methods = {key for key in vars(made) if not key.startswith("_") or key == "__len__"}
            assert {key for key in of if key != "__init__"} == methods, name
            for method, parameters in of.items():
                assert parameters == _there(made if method == "__init__" else getattr(made, method)), (name, method)


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()
    functions = {name: value for name, value in vars(device).items() if isinstance(value, Stub)}
    assert {"accept", "peek", "commit", "shuffle"} <= set(functions)
    for name, function in functions.items():
        assert function.__doc__, name
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty, name
        assert all(at.annotation is not inspect.Parameter.empty for at in signature.parameters.values()), name


def test_every_device_function_has_code():
    if carried.missing("numba"):
        pytest.skip(carried.missing("numba"))
    from gpunet._compilers import compiler
    from gpunet._device_functions import FUNCTIONS

    compiler("cpu")
    assert {value for value in vars(device).values() if isinstance(value, Stub)} <= set(FUNCTIONS)


def test_all_names_are_there():
    assert sorted(gpunet.__all__) == list(gpunet.__all__)
    assert all(hasattr(gpunet, name) for name in gpunet.__all__)
