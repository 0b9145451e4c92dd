"""What the driver gets of a URL and of the options of `Database`: TNS names and wallets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import oracledb
import pytest

from memalchemy import Checkpointer, Database, MemalchemyError, UnknownURL
from oracle.recording import Recorder

SECRET = "hush-wallet-hush"

TNSNAMES = """
agents_high = (description=
  (address=(protocol=tcps)(port=1522)(host=adb.example.com))
  (connect_data=(service_name=agents_high.adb.example.com))
  (security=(ssl_server_dn_match=no)))
"""


@pytest.fixture
def wallet(tmp_path: Path) -> Path:
    """A directory as a cloud provider hands it out."""
    (tmp_path / "tnsnames.ora").write_text(TNSNAMES)
    return tmp_path


@pytest.fixture
def recorded(server: Recorder) -> Callable[..., Database]:
    """A `Database` whose driver is the recording one."""

    def open_(url: str, **options: Any) -> Database:
        return Database(
            url, migrate="off", connect_args={"async_creator_fn": server.connect}, **options
        )

    return open_


async def used(db: Database) -> None:
    try:
        assert await Checkpointer(db).load("thread") is None
    finally:
        await db.close()


@pytest.mark.parametrize("form", ["url", "options"])
async def test_a_wallet_and_a_tns_name_reach_the_driver(
    form: str, wallet: Path, server: Recorder, recorded: Callable[..., Database]
) -> None:
    url = "oracle://ada:pw@agents_high"
    if form == "url":
        url += f"?config_dir={wallet}&wallet_location={wallet}&wallet_password={SECRET}"
        db = recorded(url)
    else:
        db = recorded(url, config_dir=wallet, wallet_location=str(wallet), wallet_password=SECRET)

    await used(db)

    (arguments, *_), (parameters, *_) = server.arguments, server.connected
    assert arguments["dsn"] == "agents_high"
    assert (arguments["user"], arguments["password"]) == ("ada", "pw")
    assert (arguments["config_dir"], arguments["wallet_location"]) == (str(wallet), str(wallet))
    assert arguments["wallet_password"] == SECRET
    assert (parameters.host, parameters.port) == ("adb.example.com", 1522)
    assert (parameters.protocol, parameters.service_name) == (
        "tcps",
        "agents_high.adb.example.com",
    )
    assert parameters.ssl_server_dn_match is False


async def test_a_host_a_port_and_a_service_may_be_reached_by_tls(
    wallet: Path, server: Recorder, recorded: Callable[..., Database]
) -> None:
    url = "oracle://ada:pw@db.example.com:2484/agents?protocol=tcps&ssl_server_dn_match=false"
    await used(recorded(url, wallet_location=wallet, ssl_server_cert_dn="CN=db"))

    (parameters, *_) = server.connected
    assert (parameters.protocol, parameters.host, parameters.port) == (
        "tcps",
        "db.example.com",
        2484,
    )
    assert parameters.service_name == "agents"
    assert parameters.ssl_server_dn_match is False
    assert server.arguments[0]["ssl_server_cert_dn"] == "CN=db"
    assert parameters.wallet_location == str(wallet)


async def test_without_options_the_driver_gets_none(
    server: Recorder, recorded: Callable[..., Database]
) -> None:
    await used(recorded("oracle://ada:pw@db.example.com:1521/agents"))

    assert server.arguments[0].keys() == {"dsn", "user", "password", "tcp_connect_timeout"}
    assert (server.connected[0].protocol, server.connected[0].service_name) == ("tcp", "agents")


async def test_another_parameter_of_the_url_still_reaches_the_driver(
    server: Recorder, recorded: Callable[..., Database]
) -> None:
    await used(recorded("oracle://ada:pw@db.example.com/agents?retry_count=3&mode=sysdba"))

    assert server.connected[0].retry_count == 3
    assert server.connected[0].mode == oracledb.AuthMode.SYSDBA


async def test_an_option_wins_over_the_url(
    server: Recorder, recorded: Callable[..., Database], wallet: Path
) -> None:
    url = f"oracle://ada:pw@agents_high?config_dir={wallet}&wallet_password=older"
    await used(recorded(url, wallet_password=SECRET))

    assert server.arguments[0]["wallet_password"] == SECRET


@pytest.mark.parametrize("form", ["url", "options"])
async def test_a_wallets_password_is_shown_nowhere(
    form: str,
    recorded: Callable[..., Database],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    url = "oracle://ada:pw@no_such_name?config_dir=/nowhere"
    if form == "url":
        db = recorded(f"{url}&wallet_password={SECRET}", echo=True)
    else:
        db = recorded(url, wallet_password=SECRET, echo=True)

    with pytest.raises(MemalchemyError) as caught:
        await used(db)

    engine = db._backend._executor._engines.enter().plain  # its repr is SQLAlchemy's to print
    seen = [repr(db), str(caught.value), repr(caught.value.__cause__), repr(engine), caplog.text]
    seen += [
        db._backend.display,
        repr(engine.url),
        engine.url.render_as_string(hide_password=False),
    ]
    seen += [repr(db._backend._executor._target)]
    assert not [text for text in seen if SECRET in text]
    await db.close()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("oracle://ada@db.example.com:1521", "no service"),
        ("oracle://ada@alias?ssl_server_dn_match=perhaps", "true or false"),
        ("oracle://ada@db.example.com/agents?protocol=udp", "tcp or tcps"),
        ("oracle://ada@alias?protocol=tcps", "host and a service"),
        ("oracle://ada@alias?wallet=/w", "'wallet' is not one that oracledb knows"),
        ("oracle://ada@alias?config_dir=/a&config_dir=/b", "twice"),
    ],
)
def test_what_makes_no_sense_in_a_url_is_said(url: str, why: str) -> None:
    with pytest.raises(UnknownURL, match=why):
        Database(url)


@pytest.mark.parametrize("url", ["postgresql://ada@db/agents", "sqlite://"])
def test_a_wallet_is_for_oracle_only(url: str) -> None:
    with pytest.raises(TypeError, match="wallet_password") as caught:
        Database(url, wallet_password=SECRET)
    assert SECRET not in str(caught.value)


async def test_a_backup_of_a_tns_name_is_of_that_name() -> None:
    with pytest.raises(MemalchemyError, match=r"expdp ada@agents_high directory="):
        await Database("oracle://ada:pw@agents_high").backup("/tmp/out")
