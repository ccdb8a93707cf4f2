# For Spack: from source. Not tried: no Spack was at hand.
from spack.package import *


class Gpupeak(CMakePackage):
    """The exact peak memory of GPU programs, and who held it."""

    homepage = "https://github.com/gpupeak/gpupeak"
    git = "https://github.com/gpupeak/gpupeak.git"
    license("MIT")
    version("0.1.0", tag="v0.1.0")

    requires("platform=linux")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("cuda@11.8:", type="build")  # its headers alone
    for name in ("cli11", "elfutils", "fmt", "libmd", "libunwind", "nlohmann-json", "protozero", "spdlog", "sqlite",
                 "tomlplusplus", "utf8proc", "xz", "zlib-api", "zstd"):
        depends_on(name)

    def cmake_args(self):
        return [self.define("GPUPEAK_BUILD_TESTS", False),
                self.define("GPUPEAK_CUDA_INCLUDE_DIR", self.spec["cuda"].prefix.include)]
