"""What the programs of own_memory.py and resident.py read: a text of 400,000 lines, and a source in C++."""
import os


def writer(folder):
    """A function file(name, text) that writes a file there and returns its path."""
    def file(name, text):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path
    return file


def inputs(folder, headers):
    """The paths of the text and of the source, which includes `headers`."""
    file = writer(folder)
    text = file("text", "".join(f"{(i * 2654435761) % (1 << 32):08x} some text of line {i}\n" for i in range(400_000)))
    includes = "\n".join(f"#include <{name}>" for name in headers)
    source = file("a.cc", includes + '\nint main() { std::regex r("a+"); std::map<std::string, std::vector<int>> m; m["a"] = {1}; return static_cast<int>(m.size()); }\n')
    return text, source
