# Runs all functions for contexts on a cluster: Rscript cluster.R JOB.json ANSWERS.json
# The job has the fields model, cluster, prompts and labels.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
model <- model_load(job$model)
message_of <- function(expr) {
  tryCatch(
    {
      expr
      "no error"
    },
    llamaherd_error = \(cnd) paste(class(cnd)[[1]], conditionMessage(cnd))
  )
}
unreachable <- message_of(context_create(model, cluster = "127.0.0.1:1"))

answers_of <- function(context) {
  generated <- generate_parallel(context, job$prompts, max_tokens = 8)
  classes <- classify_parallel(context, job$prompts, job$labels)
  scores <- score_parallel(context, job$prompts[1:4], " and then")
  vectors <- embed_parallel(context, job$prompts, deterministic = TRUE)
  names <- codebook("What is the tone?", job$labels)
  coded <- annotate_texts(data.frame(text = job$prompts), text, names, context)
  text <- generate(context, job$prompts[[1]], max_tokens = 8)
  report <- report(coded, tempfile(fileext = ".json"))
  list(
    texts = as.character(generated),
    probs = unlist(classes[paste0("p_", job$labels)]),
    scores = scores$logprob,
    vectors = as.vector(vectors),
    codes = as.character(coded$label),
    text = as.character(text),
    n_actors = vapply(
      list(generated, classes, scores),
      \(result) NROW(attr(result, "stats")$actors),
      1L
    ),
    n_done = sum(attr(generated, "stats")$actors$n_done),
    columns = names(attr(generated, "stats")$actors),
    reported = length(jsonlite::read_json(report)$stats$actors)
  )
}

actors <- context_create(
  model,
  deterministic = TRUE,
  cluster = job$cluster,
  n_actors = 2,
  num_cpus = 1
)
there <- answers_of(actors)
printed <- format(actors)
close(actors)
closed <- message_of(generate_parallel(actors, "a"))
context <- context_create(model, n_threads = 1, deterministic = TRUE)
here <- answers_of(context)
out <- list(
  there = there,
  here = here,
  printed = printed,
  closed = closed,
  unreachable = unreachable
)
writeLines(
  jsonlite::toJSON(out, na = "null", digits = NA, auto_unbox = TRUE),
  files[[2]],
  useBytes = TRUE
)
