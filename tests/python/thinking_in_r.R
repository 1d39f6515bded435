# Asks a model in each way that a job has: Rscript thinking_in_r.R JOB.json RESULTS.json
# The job has the fields model, contexts (arguments of context_create by name) and behaviours, each with a name, the
# name of its context, texts, thinking, more arguments of generate_parallel, the path of a journal or null, the
# number of samples or null, and whether to classify the texts as well.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]])
model <- model_load(job$model)
contexts <- list()
context_of <- function(name) {
  if (is.null(contexts[[name]])) {
    settings <- c(list(model, n_threads = 1L), job$contexts[[name]])
    contexts[[name]] <<- do.call(context_create, settings)
  }
  contexts[[name]]
}
thinking_of <- function(each) {
  thinking <- each$thinking
  if (is.list(thinking)) {
    thinking <- do.call("thinking", thinking, envir = asNamespace("llamaherd"))
  }
  thinking
}
ask <- function(each, ...) {
  options <- c(
    each$options,
    list(
      chat = TRUE,
      thinking = thinking_of(each),
      journal = each$journal,
      progress = FALSE,
      ...
    )
  )
  options$stop <- unlist(options$stop)
  quietly <- \(cnd) invokeRestart("muffleWarning")
  withCallingHandlers(
    do.call(
      generate_parallel,
      c(list(context_of(each$context), unlist(each$texts)), options)
    ),
    llamaherd_warning_failed = quietly
  )
}
# Label, coverage and thought of each text, as classify_parallel() has them.
classes_of <- function(each) {
  classes <- withCallingHandlers(
    classify_parallel(
      context_of(each$context),
      unlist(each$texts),
      c("yes", "no"),
      chat = TRUE,
      thinking = thinking_of(each),
      prefix = each$options$prefix,
      progress = FALSE
    ),
    llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning")
  )
  table <- with_thoughts(as.data.frame(classes))
  list(
    text = as.character(table$label),
    coverage = table$coverage,
    error = attr(classes, "errors"),
    thinking = table$thinking,
    n_thinking_tokens = table$n_thinking_tokens,
    thinking_complete = table$thinking_complete
  )
}
with_thoughts <- function(table) {
  for (name in c("thinking", "n_thinking_tokens", "thinking_complete")) {
    table[[name]] <- table[[name]] %||% rep(NA, nrow(table))
  }
  table
}
columns_of <- function(each) {
  answers <- ask(each)
  if (!is.null(each$journal)) {
    answers <- ask(each)
  }
  samples <- if (!is.null(each$n)) {
    ask(each, n = each$n, temperature = 2, seed = 3L)
  }
  table <- with_thoughts(as.data.frame(answers))
  stats <- attr(answers, "stats")
  list(
    text = table$text,
    error = table$error,
    thinking = table$thinking,
    n_thinking_tokens = table$n_thinking_tokens,
    thinking_complete = table$thinking_complete,
    n_pauses = stats$n_pauses,
    n_journal = stats$n_journal,
    n_thoughts = attr(samples, "stats")$n_thoughts,
    n_thinking_tokens_of_samples = if (!is.null(samples)) {
      as.data.frame(samples)$n_thinking_tokens
    },
    classes = if (isTRUE(each$is_classified)) classes_of(each)
  )
}
`%||%` <- function(x, y) if (is.null(x)) y else x
results <- lapply(job$behaviours, columns_of)
names(results) <- vapply(job$behaviours, \(each) each$name, "")
json <- jsonlite::toJSON(results, na = "null", null = "null", digits = NA)
writeBin(charToRaw(enc2utf8(json)), files[[2]])
