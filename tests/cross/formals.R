# Writes the arguments of the R package's functions and their defaults, read from the sources
# without an installation:
#   Rscript formals.R R_FOLDER FILE.json
arguments <- commandArgs(TRUE)
sources <- new.env()
for (file in list.files(arguments[[1]], "[.]R$", full.names = TRUE)) {
  for (line in as.list(parse(file, keep.source = FALSE))) {
    if (!is.call(line) || !identical(line[[1]], as.name("<-"))) {
      next
    }
    is_function <- is.call(line[[3]]) &&
      identical(line[[3]][[1]], as.name("function"))
    if (is_function || identical(line[[2]], as.name("further_kinds"))) {
      eval(line, sources)
    }
  }
}
# Returns a default for JSON: "(none)" if there is no default, code as text.
default_of <- function(value) {
  if (identical(value, quote(expr = ))) {
    return("(none)")
  }
  if (is.call(value) && as.character(value[[1]])[[1]] %in% c("c", "-")) {
    return(eval(value))
  }
  if (is.call(value) && identical(value[[1]], as.name("-"))) {
    return(eval(value)) # a negative number
  }
  if (is.call(value) || is.name(value)) {
    return(paste(deparse(value), collapse = " "))
  }
  value
}
names <- Filter(\(name) is.function(sources[[name]]), ls(sources))
formals <- lapply(stats::setNames(names, names), \(name) {
  lapply(as.list(formals(sources[[name]])), default_of)
})
formals[["further sampling settings"]] <- as.list(sources[["further_kinds"]])
jsonlite::write_json(
  formals,
  arguments[[2]],
  auto_unbox = TRUE,
  null = "null",
  digits = NA
)
