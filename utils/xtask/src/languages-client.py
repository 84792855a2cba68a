"""Runs a server program, talks to it as a client, ends its input, and waits for its end.

    python3 client.py SECONDS COMMAND ...      the program prints a line with its port: `port N` or `listening HOST:N`
"""

import re
import socket
import subprocess
import sys
import threading


def main() -> None:
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    watch = threading.Timer(seconds, server.kill)
    watch.daemon = True
    watch.start()
    try:
        port = None
        for line in server.stdout:
            print(line, end="", flush=True)
            found = re.match(r"(?:port |listening \S*:)(\d+)$", line)
            if found:
                port = int(found[1])
                break
        if port is None:
            sys.exit(f"the server has printed no port; it ended with {server.wait(10)}")
        for client in range(3):
            message = bytes((client + at * 7) % 251 for at in range(20_000))
            with socket.create_connection(("127.0.0.1", port), timeout=20) as stream:
                stream.sendall(message)
                got = b""
                while len(got) < len(message):
                    more = stream.recv(65536)
                    if not more:
                        break
                    got += more
            if got != message:
                sys.exit(f"client {client}: {len(got)} bytes came back, or others than were sent")
        printed, _ = server.communicate("stop\n", timeout=30)
        print(printed, end="")
        if server.returncode != 0:
            sys.exit(f"the server ended with {server.returncode}")
    finally:
        server.kill()
        server.wait(10)


if __name__ == "__main__":
    main()
