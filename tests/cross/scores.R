# Classifies and scores the prompts of a job: Rscript scores.R JOB.json SCORES.json
# The job has the fields model, prompts, readings and names of labels, and arguments of
# classify_parallel and score_parallel.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
context <- context_create(model_load(job$model), n_threads = 1L)
call <- \(fun, arguments) {
  withCallingHandlers(
    do.call(fun, c(list(context), arguments)),
    llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning")
  )
}
labels <- stats::setNames(job$readings, job$names)
classes <- call(classify_parallel, c(list(job$prompts, labels), job$classify))
scores <- call(score_parallel, c(list(job$prompts), job$score))
texts <- call(perplexity, list(job$prompts))
results <- list(
  classes = as.data.frame(classes),
  logprobs = attr(classes, "logprobs"),
  errors = attr(classes, "errors"),
  calibrated = as.data.frame(calibrated(classes, calibrate_batch(classes))),
  scores = as.data.frame(scores),
  texts = as.data.frame(texts)
)
json <- jsonlite::toJSON(
  results,
  dataframe = "columns",
  na = "null",
  digits = NA
)
writeBin(charToRaw(enc2utf8(json)), files[[2]])
