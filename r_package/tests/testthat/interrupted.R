# Run by test-interrupt.R in an R of its own: Rscript interrupted.R FOLDER PYTHON_FOLDER
folder <- commandArgs(TRUE)[[1]]
library(llamaherd)
Sys.setenv(RETICULATE_USE_MANAGED_VENV = "no")
the <- getNamespace("llamaherd")$the
the$module <- reticulate::import_from_path("fake_r", commandArgs(TRUE)[[2]])

path <- file.path(folder, "fake.gguf")
writeLines("GGUF", path)
context <- context_create(model_load(path))

# A file appears under its name when all of it is written.
save_as <- function(x, name) {
  saveRDS(x, file.path(folder, "part.rds"))
  file.rename(file.path(folder, "part.rds"), file.path(folder, name))
}

save_as(Sys.getpid(), "ready.rds")
warnings <- list()
answers <- withCallingHandlers(
  generate_parallel(context, c(a = "x", b = "y", c = "slow", d = "z")),
  warning = \(cnd) {
    warnings <<- c(warnings, list(cnd))
    invokeRestart("muffleWarning")
  }
)
save_as(
  list(
    text = stats::setNames(as.character(answers), names(answers)),
    finish_reason = attr(answers, "finish_reason"),
    class = class(answers),
    warnings = warnings,
    next_call = as.character(generate_parallel(context, "z"))
  ),
  "done.rds"
)
