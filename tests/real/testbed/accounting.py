"""Slurm's accounting: slurmdbd, and a MariaDB that only the test bed can reach."""

from pathlib import Path

DATABASE = "/var/lib/testbed-mariadb"
"""Created once in the cached root; each test bed writes to a layer above it."""
SOCKET = "/run/mysqld/mysqld.sock"
_OPTIONS = (
    *("--no-defaults", "--user=root", f"--datadir={DATABASE}"),
    *("--innodb-log-file-size=8M", "--innodb-undo-tablespaces=0"),
)
# Created by hand: mariadb-install-db needs packages that nothing else here needs.
MAKE_DATABASE = f"""
mkdir -p {DATABASE}
{{ echo 'create database mysql;'; echo 'use mysql;'
cat /usr/share/mariadb/mariadb_system_tables.sql; }} | mariadbd {" ".join(_OPTIONS)} --bootstrap
"""
# Nobody else reaches the socket, so there is no password. Slurm's own statements fail with
# MariaDB's newer isolation.
MARIADBD = (
    *("mariadbd", *_OPTIONS, f"--socket={SOCKET}", "--skip-networking", "--skip-grant-tables"),
    *("--innodb-flush-log-at-trx-commit=0", "--innodb-snapshot-isolation=OFF"),
)
_STORAGE = "accounting"


def prepare(upper: Path, port: int) -> list[Path]:
    """Fill a test bed's writable layer; return the paths that SlurmUser must own.

    The database (a folder of MariaDB) exists before slurmdbd starts. If slurmdbd creates it,
    slurmdbd continues with a handle whose first connection failed. libmariadb 11.8.9 returns no
    columns on such a handle (error 5027).
    """
    (upper / DATABASE.lstrip("/") / _STORAGE).mkdir(parents=True)
    for folder in ("run/mysqld", "run/slurmdbd"):
        (upper / folder).mkdir(parents=True)
    conf = upper / "etc/slurm/slurmdbd.conf"
    conf.touch(mode=0o600)
    conf.write_text(_slurmdbd_conf(port))
    return [conf, upper / "run/slurmdbd"]


def slurm_conf_lines(port: int) -> list[str]:
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=localhost",
        f"AccountingStoragePort={port}",
        "JobAcctGatherType=jobacct_gather/none",
    ]


def _slurmdbd_conf(port: int) -> str:
    lines = [
        "AuthType=auth/slurm",
        "AuthAltTypes=auth/jwt",
        "AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key",
        "DbdHost=localhost",
        f"DbdPort={port}",
        "SlurmUser=slurm",
        "PidFile=/run/slurmdbd/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        "StorageHost=localhost",
        "StorageUser=slurm",
        f"StorageLoc={_STORAGE}",
    ]
    return "\n".join(lines) + "\n"
