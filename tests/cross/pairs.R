# Compares texts in pairs: Rscript pairs.R JOB.json OUT.json
# The job has the fields model, names and texts.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
context <- context_create(model_load(job$model), n_threads = 1L)
texts <- stats::setNames(job$texts, job$names)
notes <- character()
ask <- function(...) {
  withCallingHandlers(
    compare_pairs(texts, "Which is angrier?", context, ...),
    llamaherd_warning_pairs = \(cnd) {
      notes <<- c(notes, conditionMessage(cnd))
      invokeRestart("muffleWarning")
    }
  )
}
found <- ask(n_pairs = 8, seed = 3)
layout <- "{question} {a}={first} {b}={second}. Answer:"
other <- ask(
  labels = c("x", "y"),
  layout = layout,
  design = "random",
  level = 0.9
)
refused <- function(code) {
  tryCatch(code, llamaherd_error_argument = \(cnd) conditionMessage(cnd))
}
errors <- c(
  refused(compare_pairs(texts, " ", context)),
  refused(compare_pairs(texts, "Which?", context, n_pairs = 100)),
  refused(compare_pairs(texts, "Which?", context, labels = c("A", "A"))),
  refused(compare_pairs(texts, "Which?", context, system = "Be brief."))
)
out <- list(
  strengths = as.list(found$strengths),
  pairs = as.list(found$pairs),
  bias = as.list(found$position_bias),
  other = as.list(other$strengths),
  notes = notes,
  known_notes = c(found$notes, other$notes),
  errors = errors
)
jsonlite::write_json(
  out,
  files[[2]],
  digits = NA,
  auto_unbox = FALSE,
  na = "null"
)
