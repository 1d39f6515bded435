# test-interrupt.R runs this script in a separate R process: Rscript interrupted.R FOLDER
# PYTHON_FOLDER
folder <- commandArgs(TRUE)[[1]]
library(llamaherd)
Sys.setenv(RETICULATE_USE_MANAGED_VENV = "no")
the <- getNamespace("llamaherd")$the
the$module <- reticulate::import_from_path("fake_r", commandArgs(TRUE)[[2]])
the$module$begin()

path <- file.path(folder, "fake.gguf")
writeLines("GGUF", path)
context <- context_create(model_load(path))

# The file gets its name only when it is complete.
save_as <- function(x, name) {
  saveRDS(x, file.path(folder, "part.rds"))
  file.rename(file.path(folder, "part.rds"), file.path(folder, name))
}

save_as(Sys.getpid(), "ready.rds")
n_seen <- 0
cnd <- tryCatch(
  withCallingHandlers(
    generate_parallel(context, c(a = "x", b = "y", c = "slow", d = "z")),
    interrupt = \(cnd) n_seen <<- n_seen + 1
  ),
  warning = identity,
  interrupt = identity
)
answers <- cnd$results
save_as(
  list(
    text = stats::setNames(as.character(answers), names(answers)),
    finish_reason = attr(answers, "finish_reason"),
    partial = as.data.frame(answers)$partial,
    class = class(answers),
    condition = class(cnd),
    message = conditionMessage(cnd),
    n_seen = n_seen,
    kept = identical(last_results(), answers),
    next_call = as.character(generate_parallel(context, "z"))
  ),
  "done.rds"
)

# This interrupt is not caught.
save_as(Sys.getpid(), "again.rds")
for (round in 1:2) {
  save_as(round, sprintf("round_%d.rds", round))
  generate_parallel(context, c("x", "slow"))
}
save_as(TRUE, "went_on.rds")
