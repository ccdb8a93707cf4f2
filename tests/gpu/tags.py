#!/usr/bin/env python3
"""The tags that the built-in rule sets give a real log's peak of device memory, as a Markdown row.

usage: tags.py GPUPEAK NAME LOG SET TAG[|TAG]…

Exit code 1 if the set did not apply by itself, if one of the TAGs (or all of its alternatives) got no bytes, or if the
tags do not add up to the peak.
"""
import json
import subprocess
import sys

gpupeak, name, log, rule_set, *wanted = sys.argv[1:]
view = json.loads(subprocess.run([gpupeak, "tags", "--json", "--scope", "device", log], stdout=subprocess.PIPE, check=True).stdout)
found = {tag["name"]: tag["bytes"] for tag in view["tags"]}
wrong = [f"nothing is {tag.replace(chr(124), " or ")}" for tag in wanted if not any(found.get(one) for one in tag.split("|"))]
if rule_set not in view["rules"]["sets"]:
    wrong.append(f"{rule_set} did not apply, but {view['rules']['sets']}")
if sum(found.values()) != view["bytes"]:
    wrong.append(f"the tags sum to {sum(found.values())}")
others = found.pop("Others", 0)
share = others / max(view["bytes"], 1)
tags = ", ".join(f"{tag} {size:,}" for tag, size in sorted(found.items(), key=lambda item: -item[1]))
print(f"| {name} | {', '.join(view['rules']['sets'])} | {view['bytes']:,} | {tags} | {others:,} ({share:.1%}) | "
      f"{'**' + '; '.join(wrong) + '**' if wrong else 'good'} |")
sys.exit(1 if wrong else 0)
