# Runs the trials of grammar.py in R, and prints rows in the same form.
library(llamaherd)

tell <- function(item, what, held, note = "") {
  row <- list(
    item = item,
    what = what,
    tries = length(held),
    held = sum(held),
    note = note
  )
  cat(jsonlite::toJSON(row, auto_unbox = TRUE), "\n", sep = "")
}

model <- model_load(Sys.getenv("LLAMAHERD_TEST_SMOLLM2"))
context <- context_create(
  model,
  n_ctx = "auto",
  n_threads = 2L,
  n_seq_max = "auto"
)
prompts <- sprintf("Text %d is about", 1:20)

# Labels that were cut off give one warning, and FALSE in the table.
long <- c(
  "politics and society",
  "sports and leisure",
  "science and technology"
)
grammar <- paste("root ::=", paste0("\"", long, "\"", collapse = " | "))
held <- logical()
for (n in 1:5) {
  warnings <- list()
  answers <- withCallingHandlers(
    generate_parallel(context, prompts, max_tokens = n, grammar = grammar),
    warning = \(cnd) {
      warnings[[length(warnings) + 1]] <<- class(cnd)[[1]]
      invokeRestart("muffleWarning")
    }
  )
  table <- as.data.frame(answers)
  cut <- !table$complete
  expected <- if (any(cut)) list("llamaherd_warning_incomplete") else list()
  held <- c(
    held,
    cut == !(table$text %in% long) & identical(warnings, expected)
  )
}
tell(
  3,
  "labels that are cut off: FALSE in R's column complete, and one warning",
  held
)

held <- vapply(
  list(
    c("yes", "no"),
    factor(c("b", "a", "b")),
    c("\u00e9t\u00e9", "\"quoted\"", "back\\slash", "line\nbreak", "\U1F600"),
    c(" yes", "yes"),
    sprintf("label %d", 1:2000)
  ),
  \(choices) {
    answers <- generate_parallel(
      context,
      prompts,
      choices = choices,
      temperature = 1
    )
    as.character(answers) %in% as.character(choices)
  },
  logical(length(prompts))
)
labels <- generate_parallel(
  context,
  prompts,
  choices = rep(list(c("a", "b"), c("c", "d")), 10)
)
held <- c(
  held,
  as.character(labels) %in% c("a", "b") == rep(c(TRUE, FALSE), 10)
)
tell(13, "answers are exactly one of their choices, in R", held)

is_refused <- function(hint, ...) {
  error <- rlang::catch_cnd(generate_parallel(context, prompts, ...), "error")
  inherits(error, "llamaherd_error_argument") &&
    grepl(hint, rlang::cnd_message(error))
}
held <- c(
  is_refused("choices", grammar = "positive"),
  is_refused("choices", grammar = "yes | no"),
  is_refused("choices", grammar = c("yes", "no")),
  is_refused("grammar cannot be parsed", grammar = "root ::= ("),
  is_refused("logit_bias", logit_bias = c(`99999999` = 1)),
  is_refused("together", grammar = "root ::= \"a\"", choices = "a"),
  is_refused("choices", choices = c("a", "")),
  is_refused("choices", choices = NA_character_)
)
one <- suppressWarnings(generate_parallel(
  context,
  prompts,
  grammar = rep(c("root ::= \"a\"", "root ::= ("), 10)
))
held <- c(held, is.na(as.character(one)) == rep(c(FALSE, TRUE), 10))
tell(
  14,
  "invalid settings in R: an error, or an error for one prompt",
  held
)
