# Runs tasks over texts: Rscript columns.R JOB.json COLUMNS.json
# The job has model, encoder, texts, codebook, scale and fields (YAML files), schema (JSON) and
# labels; and in `thinking` further tasks by name, each with model, task and settings. The reasons
# of failures, which are an attribute of R's tables, become a column of the output.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
quietly <- function(code) {
  withCallingHandlers(
    code,
    llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning"),
    llamaherd_warning_coverage = \(cnd) invokeRestart("muffleWarning")
  )
}
described <- function(frame) {
  kind <- function(column) {
    switch(
      class(column)[[length(class(column))]],
      factor = ,
      character = "string",
      integer = "integer",
      numeric = "number",
      logical = "boolean",
      list = sprintf("array of %s", kind(Filter(Negate(is.null), column)[[1]]))
    )
  }
  plain <- function(x) {
    if (is.factor(x)) {
      as.character(x)
    } else if (is.list(x)) {
      lapply(x, plain)
    } else {
      x
    }
  }
  list(
    kinds = lapply(frame, kind),
    values = lapply(frame, \(x) unname(plain(x)))
  )
}
with_errors <- function(table) {
  frame <- as.data.frame(table)
  frame$error <- unname(attr(table, "errors"))
  frame
}

context <- context_create(
  model_load(job$model),
  deterministic = TRUE,
  n_threads = 1L
)
data <- data.frame(text = job$texts)
coded <- function(file, ...) {
  book <- read_codebook(file)
  table <- quietly(annotate_texts(
    data,
    text,
    book,
    context,
    columns = "x_",
    ...
  ))
  described(as.data.frame(table)[-1])
}
vectors <- quietly(embed_parallel(
  model_load(job$encoder),
  job$texts,
  deterministic = TRUE,
  n_threads = 1L
))
rows <- lapply(seq_len(nrow(vectors)), \(i) unname(vectors[i, ]))
results <- list(
  annotate = coded(job$codebook),
  scale = coded(job$scale, distribution = TRUE),
  fields = coded(job$fields, max_tokens = 80L),
  generate = described(with_errors(quietly(
    generate_parallel(context, job$texts, schema = job$schema, max_tokens = 80L)
  ))),
  classify = described(with_errors(quietly(
    classify_parallel(context, job$texts, labels = job$labels)
  ))),
  embed = list(
    kinds = list(embedding = "vector", error = "string"),
    values = list(embedding = rows, error = unname(attr(vectors, "errors")))
  )
)
thought <- function(job, texts) {
  context <- context_create(
    model_load(job$model),
    deterministic = TRUE,
    n_threads = 1L
  )
  settings <- job$settings
  if (job$task == "annotate") {
    book <- read_codebook(settings$codebook)
    settings$codebook <- NULL
    coded <- rlang::exec(
      annotate_texts,
      data,
      "text",
      book,
      context,
      columns = "x_",
      !!!settings
    )
    return(described(as.data.frame(coded)[-1]))
  }
  task <- switch(
    job$task,
    classify = classify_parallel,
    generate = generate_parallel
  )
  described(with_errors(rlang::exec(task, context, texts, !!!settings)))
}
results <- c(
  results,
  lapply(job$thinking, \(each) quietly(thought(each, job$texts)))
)
json <- jsonlite::toJSON(results, na = "null", null = "null", digits = NA)
writeBin(charToRaw(enc2utf8(json)), files[[2]])
