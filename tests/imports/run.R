# Runs the R package in a library that has its Imports, what these need, and nothing else:
#   Rscript --vanilla tests/imports/run.R FOLDER
# FOLDER gets that library, and objects that examples made. Three parts, each in a separate R
# session: the examples of all help pages; the files of tests/testthat, by the stand-in for testthat
# in this folder; and, with no package attached, what can be done with objects that were read from a
# file. The last also gets what tibble and dplyr made, as a user's saved results would be.

folder <- commandArgs(TRUE)[[1]]
unlink(folder, recursive = TRUE)
dir.create(folder, recursive = TRUE)
folder <- normalizePath(folder) # of a folder that is there, or it would stay relative
library_folder <- file.path(folder, "library")
dir.create(library_folder)

db <- utils::installed.packages()
db <- db[!duplicated(db[, "Package"]), ]
needs <- tools::package_dependencies(
  "llamaherd",
  db,
  which = c("Depends", "Imports", "LinkingTo"),
  recursive = TRUE
)
base <- rownames(db)[db[, "Priority"] %in% c("base", "recommended")]
kept <- setdiff(c("llamaherd", needs[[1]]), base)
invisible(file.symlink(file.path(db[kept, "LibPath"], kept), library_folder))
cat(
  "Imports and what they need:",
  toString(sort(setdiff(kept, "llamaherd"))),
  "\n"
)

# Made where everything is installed.
objects <- file.path(folder, "objects")
dir.create(objects)
source("tests/imports/objects.R", local = list2env(list(objects = objects)))

run <- function(part, default_packages = NULL) {
  cat(sprintf("--- %s\n", part))
  script <- file.path("tests", "imports", paste0(part, ".R"))
  alone <- paste0(
    c("R_LIBS=", "R_LIBS_SITE=", "R_LIBS_USER=", "LLAMAHERD_OBJECTS="),
    c(rep(library_folder, 3), objects)
  )
  if (!is.null(default_packages)) {
    alone <- c(alone, paste0("R_DEFAULT_PACKAGES=", default_packages))
  }
  rscript <- file.path(R.home("bin"), "Rscript")
  system2(rscript, c("--vanilla", script), env = alone) == 0
}

good <- c(run("examples"), run("tests"), run("saved", "NULL"))
if (!all(good)) {
  quit(status = 1)
}
