#!/usr/bin/env python3
"""Servers under load are attached to and left again, many times: each reply is what it is without, nothing leads into the library after
it, the server ends with its own code, and what it grew by is what it says itself.

usage: attach_servers.py LIBGPUPEAK GPUPEAK SERVER [TIMES]
"""
import contextlib
import glob
import http.client
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import common
from attach_common import expect_nothing_leads_into_library
from common import Skipped, environment, expect, expect_consistent, report, run_case

NAME = sys.argv[3]
TIMES = int(sys.argv[4]) if len(sys.argv) > 4 else int(os.environ.get("GPUPEAK_ATTACH_TIMES", "15"))  # 1,000 by hand
MODES = ("full", "sampled", "auto")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def find(program, *places):
    found = shutil.which(program) or next(iter(sorted(p for place in places for p in glob.glob(place))), None)
    if found is None:
        raise Skipped(f"no {program} here")
    return found


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


class Server:
    """A server on a port. `user`: the user as which it and the command run; None: our own."""
    code = 0
    user = None
    stop = signal.SIGTERM

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.tool = common.GPUPEAK
        self.process = subprocess.Popen(self.command(), cwd=folder, env=environment(folder, False), user=self.user, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = []
        threading.Thread(target=lambda: self.said.extend(self.process.stdout), daemon=True).start()
        until = time.monotonic() + 30
        while not self.answers():
            expect(time.monotonic() < until and self.process.poll() is None, f"{NAME} does not begin: {self.said}")
            time.sleep(0.05)

    def answers(self):
        try:
            self.request(0)
            return True
        except (OSError, http.client.HTTPException):
            return False

    def targets(self):
        return [self.process.pid]

    def close_clients(self):
        """A connection that a client of the test holds open."""

    def end(self):
        self.close_clients()
        self.process.send_signal(self.stop)
        expect(self.process.wait(30) == self.code, f"{NAME} ends with {self.process.returncode}: {self.said[-5:]}")

    def gpupeak(self, *words):
        done = subprocess.run([self.tool, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, user=self.user,
                              env=environment(self.folder, False), check=False, timeout=120)
        return done.returncode, done.stdout

    def attach(self, pid, log, mode="full"):
        code, text = self.gpupeak("attach", "--host", mode, "--wait", 30, "-o", log, pid)
        expect(code == 0 and "is recorded from now on" in text, f"attach to {pid} gives {code}: {text}")

    def detach(self, pid):
        code, text = self.gpupeak("detach", "--wait", 30, pid)
        expect(code == 0 and "is left" in text and "hold something else" not in text, f"detach of {pid} gives {code}: {text}")


class Redis(Server):
    def command(self):
        return [find("redis-server"), "--port", str(self.port), "--save", "", "--dir", self.folder]

    def talk(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), 20) as link, link.makefile("rwb") as file:
            file.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            file.flush()
            head = file.readline()
            return file.read(int(head[1:]) + 2)[:-2] if head.startswith(b"$") else head.strip()

    def request(self, number):
        value = b"%d " % number * (number % 700 + 1)
        expect(self.talk(b"SET", b"key%d" % (number % 1000 + number // 100_000 * 1000), value) == b"+OK", "SET")
        expect(self.talk(b"GET", b"key%d" % (number % 1000 + number // 100_000 * 1000)) == value, "GET gives what was set")

    def used(self):
        return int(re.search(rb"used_memory:(\d+)", self.talk(b"INFO", b"memory")).group(1))

    def growth(self, record):
        """Redis' own account of usable bytes."""
        before = self.used()
        with record(self.process.pid) as log:
            for i in range(200):
                expect(self.talk(b"SET", b"large%d" % i, b"x" * 20_000) == b"+OK", "SET")
            grown = self.used() - before
        found = report(log)["metrics"]["host.kind.heap.growth_bytes"]
        # Redis gives the client's buffer of 40 KiB back by a timer, before or after this question.
        expect(grown > 4_000_000 and abs(found - grown) <= 64 << 10, f"{found} recorded, Redis has grown by {grown}")
        return f"{found:,} bytes, by Redis {grown:,}"


class HttpServer(Server):
    def get(self, path):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, answer.read()
        finally:
            link.close()

    def request(self, number):
        answer = self.get(f"/echo{number % 5000}")
        expect(answer == (200, b"echo%d" % (number % 5000)), f"{answer}")

    def growth_of_blocks(self, record, function, bytes_each, count=20):
        with record(self.process.pid) as log:
            for _ in range(count):
                self.get("/keep")
        peak = [p for p in report(log)["peaks"] if p["scope"] == "host"][0]
        held = sum(h["bytes"] for h in peak["holders"] if h["count"] == count and any(function in (f["function"] or "") for f in h["stack"]))
        expect(held == count * bytes_each, f"{held} bytes are held by {function}: {peak['holders'][:3]}")
        return f"{held:,} bytes in {count} blocks"


class Nginx(HttpServer):
    stop = signal.SIGQUIT

    def command(self):
        nginx = find("nginx", "/usr/sbin/nginx")
        temporary = "".join(f"{kind}_temp_path {self.folder};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"daemon off; worker_processes 2; pid {self.folder}/pid; {'user root;' if os.geteuid() == 0 else ''}\n"
                       f"error_log {self.folder}/error.log;\nevents {{}}\nhttp {{ access_log off; {temporary} connection_pool_size 8192;\n"
                       f"server {{ listen 127.0.0.1:{self.port}; location ~ ^/(?<what>.*)$ {{ return 200 $what; }} }} }}\n")
        return [nginx, "-e", f"{self.folder}/error.log", "-c", path]

    def targets(self):
        return [self.process.pid, *children_of(self.process.pid)]

    def growth(self, record):
        """Each open connection has a pool, whose size is in the configuration. One worker accepts all while the other one is stopped."""
        first, other = children_of(self.process.pid)
        self.request(1)
        links = []
        os.kill(other, signal.SIGSTOP)
        try:
            with record(first) as log:
                for _ in range(200):
                    links.append(socket.create_connection(("127.0.0.1", self.port), 20))
                self.request(2)
        finally:
            os.kill(other, signal.SIGCONT)
        for link in links:
            link.close()
        peak = [p for p in report(log)["peaks"] if p["scope"] == "host"][0]
        pools = sum(h["bytes"] for h in peak["holders"] if any("ngx_event_accept" in (f["function"] or "") for f in h["stack"]))
        expect(pools in (200 * 8192, 201 * 8192), f"{pools} bytes are held by ngx_event_accept: {peak['holders'][:3]}")
        return f"{pools:,} bytes in pools of 8,192"

    def after(self):
        """A worker that was forked from an attached master does not record, and can be attached to."""
        self.attach(self.process.pid, os.path.join(self.folder, "master.gplog"))
        before = children_of(self.process.pid)
        self.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 20
        while set(children_of(self.process.pid)) & set(before) or len(children_of(self.process.pid)) != 2:
            expect(time.monotonic() < until, "the workers are replaced")
            time.sleep(0.05)
        for worker in children_of(self.process.pid):
            self.attach(worker, os.path.join(self.folder, f"{worker}.gplog"))
            self.request(3)
            self.detach(worker)
            expect_nothing_leads_into_library(worker)
        self.detach(self.process.pid)


class Node(HttpServer):
    code = 7

    def command(self):
        script = ("const kept = [];\nprocess.on('SIGTERM', () => process.exit(7));\nrequire('http').createServer((asked, answer) => {\n"
                  "  if (asked.url === '/keep') kept.push(Buffer.alloc(1000000, 1));\n  let o = {}; for (let i = 0; i < 300; ++i) o[i] = {i};\n"
                  f"  answer.end(asked.url.slice(1)); }}).listen({self.port}, '127.0.0.1');\n")
        return [find("node"), "-e", script]

    def growth(self, record):
        return self.growth_of_blocks(record, "NodeArrayBufferAllocator", 1_000_000)


class Python(HttpServer):
    code = 5
    stop = signal.SIGINT

    def command(self):
        script = ("import http.server, sys\nkept = []\ndef fill():\n    kept.append(bytearray(1_000_000 - 1))\n"
                  "class Handler(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n        if self.path == '/keep':\n            fill()\n"
                  "        text = self.path[1:].encode()\n        self.send_response(200)\n        self.send_header('Content-Length', str(len(text)))\n"
                  "        self.end_headers()\n        self.wfile.write(text)\n    def log_message(self, *_):\n        pass\n"
                  f"try:\n    http.server.ThreadingHTTPServer(('127.0.0.1', {self.port}), Handler).serve_forever()\n"
                  "except KeyboardInterrupt:\n    sys.exit(5)\n")
        return [sys.executable, "-c", script]

    def growth(self, record):
        return self.growth_of_blocks(record, "fill", 1_000_000)


class Postgres(Server):
    stop = signal.SIGINT

    def __init__(self, folder):
        self.bin = os.path.dirname(os.path.realpath(find("postgres", "/usr/lib/postgresql/*/bin/postgres")))
        self.session, self.data = None, os.path.join(folder, "data")
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            users = [entry.pw_name for entry in pwd.getpwall()]
            self.user = "postgres" if "postgres" in users else "nobody"
            os.chmod(folder, 0o777)
        subprocess.run([f"{self.bin}/initdb", "-D", self.data, "-U", "tester", "--auth", "trust", "-N"], user=self.user, cwd=folder,
                       stdout=subprocess.DEVNULL, check=True)
        super().__init__(folder)
        if self.user is not None:  # this user may not be allowed to read the build folder
            for part, name in ((common.GPUPEAK, "bin"), (common.LIBRARY, "preload")):
                os.mkdir(os.path.join(folder, name), 0o755)
                shutil.copy(part, os.path.join(folder, name))
            self.tool = os.path.join(folder, "bin", os.path.basename(common.GPUPEAK))
        self.run("pgbench", "-i", "-q", "-s", "1")
        self.session = subprocess.Popen([f"{self.bin}/psql", *self.where(), "-qtA"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        user=self.user, cwd=folder)
        self.backend = int(self.ask("select pg_backend_pid();"))

    def where(self):
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "tester", "postgres"]

    def command(self):
        return [f"{self.bin}/postgres", "-D", self.data, "-p", str(self.port), "-k", "", "-c", "fsync=off"]

    def run(self, program, *words):
        done = subprocess.run([f"{self.bin}/{program}", *words, *self.where()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              user=self.user, cwd=self.folder, check=False)
        expect(done.returncode == 0, f"{program} gives {done.returncode}: {done.stdout}")
        return done.stdout

    def answers(self):
        done = subprocess.run([f"{self.bin}/pg_isready", *self.where()[:4]], stdout=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    def request(self, number):
        said = self.run("pgbench", "-n", "-c", "2", "-t", "50")
        expect("number of transactions actually processed: 100/100" in said and "failed transactions: 0 " in said, said)

    def ask(self, text):
        self.session.stdin.write(text + "\n")
        self.session.stdin.flush()
        return self.session.stdout.readline().strip()

    def targets(self):
        expect(self.ask("select sum(abalance) is not null from pgbench_accounts;") == "t", "the session goes on")
        return [self.process.pid, self.backend]

    def growth(self, record):
        """The memory that PostgreSQL's contexts have from malloc, by its own account."""
        ask = "select sum(total_bytes) from pg_backend_memory_contexts;"
        self.ask(ask)
        before = int(self.ask(ask))
        with record(self.backend) as log:
            for i in range(2000):
                self.session.stdin.write(f"prepare p{i} as select aid + {i} from pgbench_accounts where bid = $1;\n")
            grown = int(self.ask(ask)) - before
        found = report(log)["metrics"]["host.kind.heap.growth_bytes"]
        expect(grown > 4_000_000 and abs(found - grown) <= grown // 50, f"{found} recorded, PostgreSQL has grown by {grown}")
        return f"{found:,} usable bytes, by PostgreSQL {grown:,}"

    def close_clients(self):
        if self.session is not None:
            self.session.stdin.close()
            self.session.wait(20)


def under_load(server):
    """Calls request() all the time in two threads, until the returned function is called, which returns the number of calls."""
    ended, failures, counts = threading.Event(), [], [0, 0]

    def work(thread):
        while not ended.is_set() and not failures:
            try:
                server.request(thread * 100_000 + counts[thread])
                counts[thread] += 1
            except Exception as failure:  # pylint: disable=broad-exception-caught
                failures.append(f"{type(failure).__name__}: {failure}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()

    def end():
        ended.set()
        for thread in threads:
            thread.join()
        expect(not failures, f"a reply under load: {failures}")
        return sum(counts)

    return end


def main(folder):
    if os.uname().machine != "x86_64":
        raise Skipped("x86-64 alone")
    server = {"redis": Redis, "nginx": Nginx, "postgres": Postgres, "node": Node, "python": Python}[NAME](folder)

    @contextlib.contextmanager
    def record(pid):
        log = os.path.join(folder, "growth.gplog")
        server.attach(pid, log)
        yield log
        server.detach(pid)

    try:
        end_load = under_load(server)
        try:
            for i in range(TIMES):
                targets = server.targets()
                pid, log = targets[i % len(targets)], os.path.join(folder, f"{i}.gplog")
                server.attach(pid, log, MODES[i % 3])
                time.sleep(0.02 * (i % 3))
                server.detach(pid)
                if i % 10 == 0:
                    summary = report(log)
                    expect_consistent(summary)
                    codes = {w["code"] for w in summary["quality"]["warnings"]}
                    expect(not codes & {"GP005", "GP027", "GP028", "GP030"}, f"{summary['quality']['warnings']}")
                os.remove(log)
        finally:
            requests = end_load()
        said = server.growth(record)
        if hasattr(server, "after"):
            server.after()
        for pid in server.targets():
            expect_nothing_leads_into_library(pid)
        server.request(1)
    except BaseException:
        server.process.kill()
        raise
    server.end()
    print(f"{NAME}: {TIMES} attaches and detaches during {requests} requests; grown by {said}")


run_case(main)
