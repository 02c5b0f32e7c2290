# SPDX-License-Identifier: Apache-2.0
"""Every column of Arrow's Parquet test files: equal to what pyarrow reads, or refused with the
reason listed here."""
import pytest

pq = pytest.importorskip("pyarrow.parquet")
import oracle  # noqa: E402
from conftest import SHARED  # noqa: E402

FOLDER = SHARED / "data/parquet-testing"
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

# pyarrow refuses the schema (optional map keys).
ONLY_HERE = "incorrect_map_schema.parquet"


def files():
    return sorted(FOLDER.glob("*.parquet")) if FOLDER.is_dir() else []


@pytest.mark.cases(20)
@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_file(path):
    if path.name != ONLY_HERE:
        oracle.compare_file(path, REFUSED.get(path.name))
        return
    with pytest.raises(Exception, match="annotated as required"):
        pq.ParquetFile(path)
    assert all("is a list where one value a row is expected" in column.error for column in oracle.read_columns(path))


def test_lists_match():
    """Nothing is expected of a file that is not there."""
    assert set(REFUSED) | {ONLY_HERE} <= {path.name for path in files()}
