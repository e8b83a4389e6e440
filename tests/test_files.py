"""Files that appear whole or not at all: what stands in a folder after every way in which writing can end."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from core import files
from core.errors import StorageError
from core.files import check_file, check_folder, check_outputs, is_room, replacing, write_text

ROOT = Path(__file__).parents[1]
OLD, NEW = "old", "new, and longer"


@pytest.fixture(params=["ordinary", "private"])
def umask(request: pytest.FixtureRequest) -> int:
    """The two usual umasks."""
    return {"ordinary": 0o022, "private": 0o077}[request.param]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


class TestWriting:
    """Whole or not at all, beside whatever stood there."""

    def test_a_new_file_has_the_permissions_that_the_umask_leaves(self, tmp_path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            write_text(tmp_path / "a", NEW)
            with replacing(tmp_path / "b") as (aside,):
                # As a library does that writes a temporary file of its own and renames it.
                aside.with_name("other").touch(0o600)
                os.replace(aside.with_name("other"), aside)
        finally:
            os.umask(before)
        assert {mode(tmp_path / name) for name in "ab"} == {0o666 & ~umask}

    @pytest.mark.parametrize("permissions", [0o600, 0o640, 0o664, 0o755])
    def test_a_replaced_file_keeps_its_permissions(self, tmp_path: Path, permissions: int) -> None:
        path = tmp_path / "a"
        path.write_text(OLD)
        path.chmod(permissions)
        write_text(path, NEW)
        assert (mode(path), path.read_text()) == (permissions, NEW)

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_symbolic_link_is_followed(self, tmp_path: Path, exists: bool) -> None:
        (tmp_path / "there").mkdir()
        target, link = tmp_path / "there" / "target", tmp_path / "link"
        if exists:
            target.write_text(OLD)
        link.symlink_to(target)
        write_text(link, NEW)
        assert link.is_symlink()
        assert target.read_text() == NEW
        assert os.listdir(tmp_path / "there") == ["target"]

    def test_a_name_of_the_greatest_length(self, tmp_path: Path) -> None:
        path = tmp_path / ("n" * os.pathconf(tmp_path, "PC_NAME_MAX"))
        write_text(path, NEW)
        assert path.read_text() == NEW

    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError()])
    def test_nothing_changes_where_the_body_fails(self, tmp_path: Path, error: BaseException) -> None:
        (tmp_path / "a").write_text(OLD)
        with pytest.raises(type(error)), replacing(tmp_path / "a", tmp_path / "b") as (a, b):  # noqa: PT012
            a.write_text(NEW)
            b.with_name("temporary").write_text("half")
            raise error
        assert content(tmp_path) == {"a": OLD}

    @pytest.mark.parametrize("step", ["fsync", "chmod"])
    def test_nothing_changes_where_the_disk_fails_at_the_end(
        self, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second of two files cannot be brought to the disk: the first stays old too."""
        for name in "ab":
            (tmp_path / name).write_text(OLD)
        real, calls = getattr(os, step), []

        def failing(*arguments: object) -> object:
            calls.append(arguments)
            if len(calls) == 2:
                raise OSError(5, "Input/output error")
            return real(*arguments)

        with pytest.raises(OSError, match="Input/output"), replacing(tmp_path / "a", tmp_path / "b") as asides:  # noqa: PT012
            for aside in asides:
                aside.write_text(NEW)
            monkeypatch.setattr(os, step, failing)
        assert content(tmp_path) == {"a": OLD, "b": OLD}

    def test_a_seal_never_stands_beside_files_of_two_sets(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in "abc":
            (tmp_path / name).write_text(OLD)
        seen, real = [], os.replace

        def watched(source: Path, target: Path) -> None:
            seen.append(content_without_rooms(tmp_path))
            real(source, target)

        monkeypatch.setattr(os, "replace", watched)
        with replacing(*(tmp_path / name for name in "abc"), seal=tmp_path / "a") as asides:
            for aside in asides:
                aside.write_text(NEW)
        assert seen == [{"b": OLD, "c": OLD}, {"b": NEW, "c": OLD}, {"b": NEW, "c": NEW}]
        assert content(tmp_path) == dict.fromkeys("abc", NEW)

    @pytest.mark.parametrize("seal", [None, "a"])
    @pytest.mark.parametrize("failing", [1, 2, 3])
    def test_nothing_changes_where_a_move_fails(
        self, tmp_path: Path, failing: int, seal: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Files that took their places before are put back, and a new one is removed."""
        for name in "ac":
            (tmp_path / name).write_text(OLD)
        real, calls = os.replace, []

        def busy(source: Path, target: Path) -> None:
            calls.append(target)
            if len(calls) == failing:
                raise OSError(16, "Device or resource busy")
            real(source, target)

        monkeypatch.setattr(os, "replace", busy)
        given = [tmp_path / name for name in "abc"]
        with (  # noqa: PT012
            pytest.raises(OSError, match="busy"),
            replacing(*given, seal=None if seal is None else tmp_path / seal) as asides,
        ):
            for aside in asides:
                aside.write_text(NEW)
        assert content(tmp_path) == {"a": OLD, "c": OLD}


def content_without_rooms(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if not is_room(path.name)}


HOLD = """
import sys, time
from core.files import replacing
with replacing(sys.argv[1]) as (aside,):
    aside.write_text("half")
    print("writing", flush=True)
    time.sleep(600)
"""


def holding(path: Path) -> subprocess.Popen[str]:
    """A process in the middle of writing a file."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def test_what_a_killed_process_left_aside_is_removed_and_a_living_ones_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text(OLD)
    killed, living = holding(path), holding(path)
    try:
        killed.kill()
        killed.communicate()
        rooms = [entry for entry in tmp_path.iterdir() if is_room(entry.name)]
        assert len(rooms) == 2
        assert path.read_text() == OLD
        write_text(path, NEW)
        assert sum(room.exists() for room in rooms) == 2
        for room in rooms:
            os.utime(room, (time.time() - 2 * files.SETTLED_SECONDS,) * 2)
        write_text(path, NEW)
        assert sum(room.exists() for room in rooms) == 1
        assert path.read_text() == NEW
    finally:
        living.kill()
        living.communicate()


class TestRefusals:
    """One sentence with the option and the path, and nothing left behind."""

    @pytest.mark.parametrize("kind", ["a pipe", "a folder", "a socket", "a device"])
    def test_what_is_no_regular_file(self, tmp_path: Path, kind: str) -> None:
        path = Path("/dev/null") if kind == "a device" else tmp_path / "p"
        with socket.socket(socket.AF_UNIX) as listener:
            if kind == "a pipe":
                os.mkfifo(path)
            elif kind == "a folder":
                path.mkdir()
            elif kind == "a socket":
                listener.bind(str(path))
            for way in (path, link_to(path, tmp_path / "link")):
                for call in (lambda way=way: check_file(way, "--html"), lambda way=way: write_text(way, NEW)):
                    with pytest.raises(StorageError, match=f"cannot be written: it is {kind}; give another path."):
                        call()
            with pytest.raises(StorageError, match=f"^The --html file '{path}'"):
                check_file(path, "--html")

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("-", "standard output is the document's"),
            ("absent/a", "does not exist; make it"),
            ("file/a", "Not a directory"),
            ("loop", "Too many levels of symbolic links"),
            ("n" * 300, "File name too long"),
            ("a\0b", "null"),
        ],
    )
    def test_places_where_no_file_can_be(
        self, tmp_path: Path, name: str, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "file").write_text(OLD)
        (tmp_path / "loop").symlink_to("loop")
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(StorageError, match=words):
            check_file(name, "--html")
        assert sorted(os.listdir(tmp_path)) == before

    @pytest.mark.parametrize(
        ("name", "words"),
        [("file", "is not a folder"), ("file/a", "is not a folder"), ("new/" + "n" * 300, "too long")],
    )
    def test_places_where_no_folder_can_be(self, tmp_path: Path, name: str, words: str) -> None:
        (tmp_path / "file").write_text(OLD)
        with pytest.raises(StorageError, match=words):
            check_folder(tmp_path / name, "--csv")
        assert content(tmp_path) == {"file": OLD}

    @pytest.mark.parametrize(("link", "name"), [("loop", "loop"), ("gone", "dangling"), ("gone", "dangling/below")])
    def test_a_link_that_leads_nowhere_is_no_folder(self, tmp_path: Path, link: str, name: str) -> None:
        (tmp_path / name.split("/")[0]).symlink_to(link)
        with pytest.raises(StorageError, match="a link that leads nowhere"):
            check_folder(tmp_path / name, "--csv")
        assert len(os.listdir(tmp_path)) == 1

    @pytest.mark.parametrize("stream", [1, 2])
    def test_the_file_that_this_command_prints_to(self, tmp_path: Path, stream: int) -> None:
        code = "import sys; from core.files import check_file; check_file(sys.argv[1])"
        path = tmp_path / "out"
        with open(path, "w") as out:
            streams = {"stdout": out} if stream == 1 else {"stderr": out}
            for name in (path, f"/dev/fd/{stream}"):
                done = subprocess.run(
                    [sys.executable, "-c", code, name],
                    cwd=ROOT,
                    check=False,
                    **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
                )
                told = (done.stderr or b"").decode() + path.read_text()
                assert "it is where this command prints" in told

    def test_a_write_protected_file_and_a_folder_that_is_closed(self) -> None:
        """As a user who is not root: nothing is replaced behind a protection, and the folder is named."""
        code = (
            "import os, sys; from core.files import check_file, check_folder\n"
            "from core.errors import StorageError\n"
            "os.chmod('file', 0o444); os.chmod('closed', 0o555)\n"
            "os.setresuid(65534, 65534, 65534) if os.getuid() == 0 else None\n"
            "for check, name in ((check_file, 'file'), (check_file, 'closed/a'), (check_folder, 'closed/a/b')):\n"
            "    try: check(name, '--x')\n"
            "    except StorageError as error: print(error)\n"
        )
        # Not tmp_path: its parents are closed to other users.
        place = Path(tempfile.mkdtemp())
        try:
            place.chmod(0o777)
            (place / "file").write_text(OLD)
            (place / "closed").mkdir()
            done = subprocess.run(
                [sys.executable, "-B", "-c", code],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=True,
            )
            told = done.stdout.splitlines()
            assert len(told) == 3
            assert "it is write-protected; give another path." in told[0]
            assert all(f"Permission denied in the folder '{place}/closed'" in line for line in told[1:])
            assert (place / "file").read_text() == OLD
            assert os.listdir(place / "closed") == []
        finally:
            (place / "closed").rmdir()
            (place / "file").unlink()
            place.rmdir()

    def test_two_options_do_not_share_a_file(self, tmp_path: Path) -> None:
        one, two = tmp_path / "a", tmp_path / "." / "a"
        with pytest.raises(StorageError, match=r"--html and --junit both name .*; give each its own path\."):
            check_outputs({"--html": one, "--junit": two, "--sarif": None})
        with pytest.raises(StorageError, match="--batch and --html both name"):
            check_outputs({"--html": one}, None, {"--batch": two})
        with pytest.raises(StorageError, match="--csv and --html both name"):
            check_outputs({"--html": one}, {"--csv": two})
        check_outputs({"--html": one, "--junit": tmp_path / "b"})
        assert os.listdir(tmp_path) == []

    def test_a_file_may_lie_in_a_folder_that_is_made_with_it(self, tmp_path: Path) -> None:
        check_outputs({"--html": tmp_path / "new" / "a"}, {"--csv": tmp_path / "new" / "tables"})
        with pytest.raises(StorageError, match="does not exist"):
            check_outputs({"--html": tmp_path / "other" / "a"}, {"--csv": tmp_path / "new"})
        assert os.listdir(tmp_path) == []


def link_to(path: Path, link: Path) -> Path:
    link.symlink_to(path)
    return link
