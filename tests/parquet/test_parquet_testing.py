# SPDX-License-Identifier: Apache-2.0
"""Every column of Arrow's Parquet test files: equal to what pyarrow reads, or refused with the
reason listed here."""
import pytest

pq = pytest.importorskip("pyarrow.parquet")
oracle = pytest.importorskip("oracle")

FOLDER = oracle.SHARED / "data/parquet-testing"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no {FOLDER}")

INT96 = "type INT96 is not supported"
DELTA = "encoding DELTA_BYTE_ARRAY (7) of type BYTE_ARRAY is not supported"
CHECKSUM = "page checksum (CRC) does not match"

# What must fail, and the text that must say so. pyarrow checks no checksum unless asked.
REFUSED = {
    "alltypes_dictionary.parquet": {"timestamp_col": INT96},
    "alltypes_plain.parquet": {"timestamp_col": INT96},
    "alltypes_plain.snappy.parquet": {"timestamp_col": INT96},
    "alltypes_tiny_pages.parquet": {"timestamp_col": INT96},
    "alltypes_tiny_pages_plain.parquet": {"timestamp_col": INT96},
    "int96_from_spark.parquet": {"a": INT96},
    "datapage_v1-corrupt-checksum.parquet": {"a": CHECKSUM, "b": CHECKSUM},
    "rle-dict-uncompressed-corrupt-checksum.parquet": {
        "long_field": CHECKSUM, "binary_field": CHECKSUM},
    "delta_byte_array.parquet": {name: DELTA for name in (
        "c_customer_id", "c_salutation", "c_first_name", "c_last_name",
        "c_preferred_cust_flag", "c_birth_country", "c_login", "c_email_address",
        "c_last_review_date")},
    "delta_encoding_required_column.parquet": {name: DELTA for name in (
        "c_customer_id:", "c_salutation:", "c_first_name:", "c_last_name:",
        "c_preferred_cust_flag:", "c_birth_country:", "c_email_address:",
        "c_last_review_date:")},
}

# pyarrow refuses the schema (optional map keys); levels do not care.
ONLY_HERE = {
    "incorrect_map_schema.parquet": {
        0: [(3, 0, b"parent"), (3, 1, b"name")],
        1: [(3, 0, b"another"), (3, 1, b"report")],
    },
}


def files():
    return sorted(FOLDER.glob("*.parquet")) if FOLDER.is_dir() else []


@pytest.mark.cases(20)
@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_file(path):
    if path.name not in ONLY_HERE:
        oracle.compare_file(path, REFUSED.get(path.name))
        return
    with pytest.raises(Exception, match="annotated as required"):
        pq.ParquetFile(path)
    for column, slots in ONLY_HERE[path.name].items():
        assert oracle.read_slots(path, column) == [(d, r, "x" + v.hex()) for d, r, v in slots]


def test_lists_match():
    """Nothing is expected of a file that is not there."""
    assert set(REFUSED) | set(ONLY_HERE) <= {path.name for path in files()}
