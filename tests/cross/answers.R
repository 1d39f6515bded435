# Answers the prompts of a job: Rscript answers.R JOB.json ANSWERS.json
# The job has the fields model, lora (scales by path, if any), context (arguments of
# context_create), prompts, and generate (arguments of generate_parallel). A null in JSON means a
# prompt that is NA. With a schema the result also contains `table`.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]])
job$generate$choices <- unlist(job$generate$choices)
model <- model_load(job$model, lora = job$lora)
context <- do.call(context_create, c(list(model), job$context))
prompts <- lapply(job$prompts, \(prompt) {
  if (is.list(prompt)) unlist(prompt) else prompt
})
if (
  all(vapply(
    prompts,
    \(prompt) is.null(prompt) || is.character(prompt),
    logical(1)
  ))
) {
  prompts <- vapply(
    prompts,
    \(prompt) if (is.null(prompt)) NA_character_ else prompt,
    character(1)
  )
}
answers <- withCallingHandlers(
  do.call(generate_parallel, c(list(context, prompts), job$generate)),
  llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning"),
  llamaherd_warning_incomplete = \(cnd) invokeRestart("muffleWarning")
)

data <- if (is.data.frame(answers)) answers
if (inherits(answers, "llamaherd_samples")) {
  table <- as.data.frame(answers)
  for (name in c("finish_reason", "complete")) {
    attr(answers, name) <- table[[name]]
  }
  attr(answers, "errors") <- table$error
  attr(answers, "usage") <- table[c(
    "n_prompt_tokens",
    "n_reused_tokens",
    "seed"
  )]
  texts <- table$text
} else {
  texts <- if (is.null(data)) as.character(answers) else attr(data, "text")
}
answers <- list(
  texts = texts,
  table = data,
  errors = attr(answers, "errors"),
  finish_reasons = attr(answers, "finish_reason"),
  complete = attr(answers, "complete"),
  usage = attr(answers, "usage"),
  hashes = attr(answers, "hashes"),
  stats = unclass(attr(answers, "stats"))
)
# Writes bytes, because a connection would convert the text to the locale's encoding.
json <- enc2utf8(jsonlite::toJSON(
  answers,
  dataframe = "columns",
  na = "null",
  digits = NA
))
writeBin(charToRaw(json), files[[2]])
