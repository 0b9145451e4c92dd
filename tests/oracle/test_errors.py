"""What the driver's own error objects mean: by number, rewritten by the driver where it does."""

from __future__ import annotations

import oracledb
import pytest
from sqlalchemy.exc import DatabaseError, DBAPIError

from memalchemy.dialects import DIALECTS, Failure
from oracle.recording import driver_error, oracle_error

MEANINGS = {
    1: Failure.UNIQUE,
    942: Failure.MISSING_TABLE,
    1017: Failure.AUTHENTICATION,
    28000: Failure.AUTHENTICATION,
    28001: Failure.AUTHENTICATION,
    1031: Failure.PERMISSION,
    1045: Failure.PERMISSION,
    1950: Failure.PERMISSION,
    60: Failure.ROLLED_BACK,
    8177: Failure.ROLLED_BACK,
    51815: Failure.ROLLED_BACK,
    54: Failure.BUSY,
    30006: Failure.BUSY,
    1013: Failure.BUSY,
    1536: Failure.FULL,
    1653: Failure.FULL,
    1654: Failure.FULL,
    1691: Failure.FULL,
    1578: Failure.CORRUPT,
    28: Failure.DISCONNECTED,
    600: Failure.DISCONNECTED,
    1012: Failure.DISCONNECTED,
    1089: Failure.DISCONNECTED,
    2396: Failure.DISCONNECTED,
    3113: Failure.DISCONNECTED,
    3114: Failure.DISCONNECTED,
    3135: Failure.DISCONNECTED,
    3138: Failure.DISCONNECTED,
    12571: Failure.DISCONNECTED,
    25408: Failure.DISCONNECTED,
    1033: Failure.UNREACHABLE,
    1034: Failure.UNREACHABLE,
    1400: Failure.OTHER,
    1461: Failure.OTHER,
    2290: Failure.OTHER,
    2291: Failure.OTHER,
    12899: Failure.OTHER,
}


def wrapped(error: oracledb.Error) -> DBAPIError:
    """As SQLAlchemy hands it on."""
    return DatabaseError("SELECT 1", {}, error)


@pytest.mark.parametrize("number", MEANINGS)
def test_a_number_means(number: int) -> None:
    failure, code = DIALECTS["oracle"].classify(wrapped(oracle_error(number)))

    assert failure is MEANINGS[number]
    assert code is not None


def test_the_code_is_the_numbers_own_where_the_driver_keeps_it() -> None:
    assert DIALECTS["oracle"].classify(wrapped(oracle_error(1)))[1] == "ORA-00001"
    assert DIALECTS["oracle"].classify(wrapped(oracle_error(3113)))[1] == "DPY-4011"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (driver_error(1001), Failure.DISCONNECTED),
        (driver_error(4011), Failure.DISCONNECTED),
        (driver_error(4024, timeout=5), Failure.BUSY),
        (driver_error(6005, connection_id="x"), Failure.UNREACHABLE),
        (driver_error(6001, service_name="x", host="h", port=1), Failure.UNREACHABLE),
        (driver_error(6003, sid="x", host="h", port=1), Failure.UNREACHABLE),
        (driver_error(3013, py_type_name="x", db_type_name="y"), Failure.OTHER),
        (TimeoutError("no answer"), Failure.UNREACHABLE),
        (ConnectionRefusedError("no"), Failure.UNREACHABLE),
    ],
    ids=str,
)
def test_an_error_of_the_driver_itself_means(error: Exception, failure: Failure) -> None:
    assert DIALECTS["oracle"].classify(error)[0] is failure


def test_the_text_of_an_error_means_nothing() -> None:
    told = oracle_error(12899)
    told.args[0].message = "ORA-00001: unique constraint"

    assert DIALECTS["oracle"].classify(wrapped(told))[0] is Failure.OTHER
