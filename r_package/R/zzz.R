# Changes all methods of print() and format() when the package is built: each shows numbers with a
# point, see local_point(). This file is the last one, so that all methods exist.

with_point <- function(method) {
  body(method) <- rlang::expr({
    local_point()
    !!body(method)
  })
  method
}

local({
  package <- topenv()
  methods <- grep("^(format|print)[.](summary[.])?llamaherd_", ls(package), value = TRUE)
  for (name in methods) {
    assign(name, with_point(get(name, package)), package)
  }
})
