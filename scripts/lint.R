# Runs lintr on the R sources; exits with 1 if there are findings.
files <- list.files(
  c(
    "r_package/R",
    "r_package/tests",
    "examples",
    "scripts",
    "benchmarks",
    "tests/imports"
  ),
  pattern = "[.]R$",
  recursive = TRUE,
  full.names = TRUE
)
lints <- do.call(c, lapply(files, lintr::lint))
for (lint in lints) {
  cat(sprintf(
    "%s:%d:%d: [%s] %s\n",
    lint$filename,
    lint$line_number,
    lint$column_number,
    lint$linter,
    lint$message
  ))
}
cat(sprintf("lintr: %d files, %d findings\n", length(files), length(lints)))
if (length(lints) > 0) {
  quit(status = 1)
}
