# Writes the help pages of the R package from the roxygen comments. With --check, only names
# the pages that differ, and exits with 1 if there are any.
is_check <- "--check" %in% commandArgs(trailingOnly = TRUE)
package <- "r_package"
if (is_check) {
  file.copy(package, tempdir(), recursive = TRUE)
  package <- file.path(tempdir(), package)
}
suppressMessages(roxygen2::roxygenise(package, roclets = "rd"))

pages_of <- function(folder) {
  paths <- list.files(file.path(folder, "man"), full.names = TRUE, pattern = "[.]Rd$")
  stats::setNames(lapply(paths, readLines, encoding = "UTF-8"), basename(paths))
}
if (is_check) {
  pages <- pages_of("r_package")
  written <- pages_of(package)
  names <- union(names(pages), names(written))
  differing <- Filter(function(name) !identical(pages[[name]], written[[name]]), names)
  for (name in differing) cat(name, ": differs from the comments; run make generated\n", sep = "")
  if (length(differing) > 0) quit(status = 1)
}
