# For Spack: from source. Configured by tests/package/recipes.sh, without Spack.
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
    for name in ("cli11", "elfutils", "fmt", "libmd", "libunwind", "nlohmann-json", "spdlog", "sqlite",
                 "tomlplusplus", "utf8proc", "xz", "zlib-api", "zstd"):
        depends_on(name)
    # Headers alone, of which Spack has no package.
    resource(name="protozero", git="https://github.com/mapbox/protozero.git", tag="v1.7.1", placement="protozero")

    def cmake_args(self):
        return [self.define("GPUPEAK_BUILD_TESTS", False),
                self.define("GPUPEAK_CUDA_INCLUDE_DIR", self.spec["cuda"].prefix.include),
                self.define("GPUPEAK_PROTOZERO_INCLUDE", join_path(self.stage.source_path, "protozero", "include"))]
