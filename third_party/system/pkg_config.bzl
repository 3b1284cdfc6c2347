"""One external repository, @system, with a cc_library for each library of the distribution.

The compiler finds the headers in its default path and pkg-config says what to link, so nothing is
copied and nothing is downloaded. A library that is missing stops the build with the name of the
package to install.
"""

def _linkopts(repository_ctx, name, packages, debian_package):
    result = repository_ctx.execute(["pkg-config", "--libs"] + packages)
    if result.return_code != 0:
        fail("@system//:%s needs %s, which pkg-config does not know: run tools/setup, or " %
             (name, " ".join(packages)) +
             "apt-get install pkg-config %s\n%s" % (debian_package, result.stderr))
    options = []
    for option in result.stdout.strip().split(" "):
        # Long chains of Abseil libraries repeat themselves; order matters only for static ones.
        if option and (option not in options or option.startswith("-Wl,")):
            options.append(option)
    return options

def _system_libraries_impl(repository_ctx):
    lines = ['package(default_visibility = ["//visibility:public"])', ""]
    for name, packages in repository_ctx.attr.libraries.items():
        linkopts = _linkopts(
            repository_ctx,
            name,
            packages.split(" "),
            repository_ctx.attr.debian_packages[name],
        )
        lines.append("cc_library(name = %r, linkopts = %r)" % (name, linkopts))
    repository_ctx.file("BUILD", "\n".join(lines) + "\n")

system_libraries = repository_rule(
    implementation = _system_libraries_impl,
    attrs = {
        "libraries": attr.string_dict(doc = "target name -> pkg-config packages, by spaces"),
        "debian_packages": attr.string_dict(doc = "target name -> Debian package to install"),
    },
    configure = True,
    local = True,
)
