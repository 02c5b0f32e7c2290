# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the library is an exception with the library's words."""
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
from qkscope._call import call, ffi, lib  # noqa: E402


def test_statuses_are_exceptions_that_python_knows():
    settings = ffi.new("qk_settings **")
    call(lib.qk_settings_new, settings, ffi.addressof(lib.qk_analysis_settings_table), b"analyze")
    with pytest.raises(ValueError, match="percentage from 1 to below 100") as raised:
        call(lib.qk_settings_set, settings[0], b"ci", b"much")
    assert raised.value.status == "QK_ERR_ARGUMENT"
    with pytest.raises(FileNotFoundError, match="there is no setting 'much'"):
        call(lib.qk_settings_set, settings[0], b"much", b"1")
    lib.qk_settings_free(settings)


def test_version_is_that_of_the_library():
    assert qk.__version__ == ffi.string(lib.qk_version()).decode()
