# The examples of all help pages; what they made is kept for saved.R.
source("tests/imports/common.R")
library(llamaherd)
alone()

pages <- list.files("r_package/man", "[.]Rd$", full.names = TRUE)
home <- getwd()
objects <- Sys.getenv("LLAMAHERD_OBJECTS")
setwd(tempdir())
grDevices::pdf(NULL)

example_of <- function(page) {
  force(page)
  function() {
    code <- tempfile(fileext = ".R")
    tools::Rd2ex(file.path(home, page), code, commentDontrun = TRUE)
    if (!file.exists(code)) {
      return(invisible())
    }
    env <- new.env(parent = globalenv())
    source(code, local = env, echo = TRUE)
    for (name in ls(env)) {
      if (any(startsWith(class(env[[name]]), "llamaherd_"))) {
        path <- paste0(sub("[.]Rd$", "", basename(page)), "-", name, ".rds")
        saveRDS(env[[name]], file.path(objects, path))
      }
    }
  }
}
run_each(stats::setNames(lapply(pages, example_of), basename(pages)))
