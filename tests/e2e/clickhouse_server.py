"""A server of ClickHouse for one test, in a folder of its own: Debian's clickhouse-server."""
import json
import os
import shutil
import subprocess
import time

from common import Skipped, expect

CONFIGURATION = """<yandex>
  <logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
  <http_port>8123</http_port><tcp_port>9000</tcp_port><interserver_http_port>9009</interserver_http_port>
  <listen_host>{address}</listen_host><timezone>UTC</timezone>
  <path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><user_files_path>{folder}/files/</user_files_path>
  <users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
  <mark_cache_size>1000000000</mark_cache_size><compression><case><method>zstd</method></case></compression>
  <remote_servers><gpupeak>{shards}</gpupeak></remote_servers>
</yandex>"""
USERS = """<yandex><profiles><default/></profiles><quotas><default/></quotas>
  <users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>"""


def find_programs():
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for program in ("clickhouse-server", "clickhouse-client", "curl", "zstd"):
        if not shutil.which(program):
            raise Skipped(f"no {program} (Debian: clickhouse-server, clickhouse-client, curl, zstd)")


class ClickHouseServer:
    """A server, as a context. `within`: words in front of each command. `addresses`: of all servers of the cluster, with its own."""

    def __init__(self, folder, address, addresses, within=()):
        self.folder, self.address, self.within = folder, address, list(within)
        os.mkdir(folder)
        shards = "".join(f"<shard><internal_replication>true</internal_replication><replica><host>{of}</host><port>9000</port></replica></shard>" for of in addresses)
        for name, text in (("config.xml", CONFIGURATION.format(folder=folder, address=address, shards=shards)), ("users.xml", USERS)):
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)

    @property
    def url(self):
        return f"http://{self.address}:8123"

    def __enter__(self):
        out = open(os.path.join(self.folder, "out"), "wb")
        self.process = subprocess.Popen([*self.within, "clickhouse-server", f"--config-file={self.folder}/config.xml"], stdin=subprocess.DEVNULL,
                                        stdout=out, stderr=out, cwd=self.folder)
        out.close()
        until = time.monotonic() + 60
        while self.client("-q", "SELECT 1", check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > until:
                self.__exit__()
                raise Skipped("clickhouse-server does not run here: " + open(os.path.join(self.folder, "out"), encoding="utf-8").read()[-500:])
            time.sleep(0.1)
        return self

    def client(self, *words, check=True, **more):
        done = subprocess.run([*self.within, *self.client_words(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)
        expect(done.returncode == 0 or not check, f"{words}: {done.stderr.decode(errors='replace')[:1000]}")
        return done

    def client_words(self):
        return ["clickhouse-client", f"--host={self.address}"]

    def run_file(self, path, *words):
        with open(path, "rb") as file:
            self.client("-n", *words, stdin=file)

    def rows(self, sql, database="gpupeak"):
        """The rows as JSON has them. 64-bit numbers are numbers, too."""
        done = self.client("-d", database, "--output_format_json_quote_64bit_integers=0", "-q", sql.strip().rstrip(";") + " FORMAT JSONEachRow")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
