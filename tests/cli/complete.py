# SPDX-License-Identifier: Apache-2.0
# usage: complete.py SHELL SOURCE MESHLO < LINES    Types each line into SHELL (bash, zsh or fish), which has the completion
# of SOURCE/tools/completion.*, presses Tab, and prints what the line has become. The shell runs on a terminal, as for a user.
import os
import pathlib
import pty
import sys
import tempfile
import threading
import time

# How each is started and set up. A file `ready` appears when it waits for a line.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile"], "source '{}'; PROMPT_COMMAND='touch ready'"),
    "zsh": (
        ["zsh", "-f"],
        "bindkey -e; cp '{}' _meshlo; fpath=($PWD $fpath); autoload -Uz compinit; "
        "compinit -D -u; zle-line-init() {{ touch ready }}; zle -N zle-line-init",
    ),
    "fish": (["fish", "--no-config"], "source '{}'; function fish_prompt; touch ready; end"),
}
LINE_START, LINE_END, INTERRUPT = "\x01", "\x05", "\x03"
SECONDS = 120  # a shell that has not answered by then is broken


def start(name, folder, meshlo):
    (folder / "bin").mkdir()
    (folder / "bin" / "meshlo").symlink_to(meshlo)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        os.environ.update(PATH=path, HOME=str(folder), TERM="vt100", COLUMNS="200", LINES="60", HISTFILE="/dev/null")
        os.execvp(SHELLS[name][0][0], [*SHELLS[name][0], "-i"])
    return terminal


# A shell blocks while its output is not read.
def drain(terminal):
    while True:
        try:
            if not os.read(terminal, 65536):
                return
        except OSError:
            return


def wait_for(path, name):
    end = time.monotonic() + SECONDS
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"{name} does not answer")
        time.sleep(0.02)


def main():
    name, source, meshlo = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        terminal = start(name, folder, os.path.realpath(meshlo))
        threading.Thread(target=drain, args=(terminal,), daemon=True).start()
        setup = SHELLS[name][1].format(f"{source}/tools/completion.{name}")
        os.write(terminal, f"{setup}\r".encode())
        for i, line in enumerate(sys.stdin.read().splitlines()):
            wait_for(folder / "ready", name)
            (folder / "ready").unlink()
            # The completed line becomes the text between quotes of another command, which tells when it is done.
            typed = f"{line}\t{LINE_START}printf '%s\\n' '{LINE_END}' >line; mv line line.{i}\r"
            os.write(terminal, typed.encode())
            wait_for(folder / f"line.{i}", name)
            print((folder / f"line.{i}").read_text().strip())
        os.write(terminal, f"{INTERRUPT}exit\r".encode())


main()
