#' Probabilities of given texts
#'
#' @description
#' `score_parallel()` computes the probability of given continuations of prompts, token by token.
#' `perplexity()` measures how well a model predicts whole texts. No text is generated.
#'
#' @inheritParams generate_parallel
#' @inheritParams classify_parallel
#' @param continuations Possible continuations: a character vector with one continuation for all
#'   prompts or one per prompt, or a list with one vector per prompt. If a vector contains NA, its
#'   prompt fails.
#' @param space Whether to put a space between prompt and continuation. `"auto"` adds a space unless
#'   the prompt ends with white space, the continuation begins with white space, or `chat` is TRUE.
#' @param texts Texts, in the same forms as `prompts`.
#' @returns `score_parallel()`: a `llamaherd_table`, a data frame with one row per prompt in the
#'   same order, or one row per continuation if `continuations` is a list; then `prompt` is the
#'   index of the prompt. NA where a prompt failed.
#'
#'   * `continuation`: the text.
#'   * `logprob`: natural logarithm of the continuation's probability, the sum over its tokens.
#'   * `n_tokens`: number of tokens of the continuation.
#'   * `token_logprobs`: list of the log-probabilities of these tokens. Prompt and continuation are
#'     tokenized together; a token across the boundary belongs to the continuation, as its first
#'     token.
#'   * If you set the argument `thinking`: the columns `thinking`, `n_thinking_tokens` and
#'     `thinking_complete` describe the thought before the continuation, as in
#'     [classify_parallel()].
#'
#'   `perplexity()`: one row per text and the columns `perplexity`, the inverse of the geometric
#'   mean of the conditional probabilities of its tokens, and `n_tokens`, the number of these
#'   tokens. The first token of a text is predicted only if the model starts texts with a special
#'   token.
#'
#'   The results of both functions have the attributes `errors` and `finish_reason`, with one
#'   element per prompt, and `stats`.
#' @seealso [classify_parallel()]
#' @concept log-likelihood
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' score_parallel(context, "The capital of France is", list(c(" Paris", " Lyon")))
#' perplexity(context, c("It rains.", "Rains it."))
#' close(model)
score_parallel <- function(
  context,
  prompts,
  continuations,
  space = FALSE,
  progress = interactive(),
  verbosity = 0L,
  parse_special = "auto",
  on_error = c("continue", "return", "stop"),
  journal = NULL,
  chat = FALSE,
  system = NULL,
  thinking = NULL,
  variables = NULL,
  template = NULL,
  prefix = NULL,
  merge_system = FALSE
) {
  env <- rlang::current_env()
  check_given(continuations, "The texts whose probability after the prompts is computed.")
  object <- check_context(context)
  prompts <- chat_or_prompts(prompts, "prompts", env)
  texts <- check_continuations(continuations, length(prompts$values))
  is_na <- vapply(texts, anyNA, logical(1))
  texts <- lapply(texts, as_utf8)
  missing <- vapply(texts, anyNA, logical(1))
  prompts$values[missing] <- list(NULL)
  free <- missing & is.na(prompts$problems)
  prompts$problems[free] <- ifelse(
    is_na[free],
    "the continuation is NA",
    sub("^the text", "the continuation", invalid_text)
  )
  options <- c(
    list(
      # Continuations are also checked if their prompt fails.
      continuations = ifelse(missing, list(list("NA")), lapply(texts, as_py_list)),
      space = py_value(space)
    ),
    task_options(prompts, env)
  )
  make <- \(table, prompts, ...) new_scores(table, prompts, texts, is.list(continuations))
  result <- run_task("score", make, object, prompts, options, env)
  keeping(
    result,
    document_answers("score_parallel", context, prompts, result, result$logprob, list())
  )
  result
}

#' @rdname score_parallel
#' @export
perplexity <- function(
  context,
  texts,
  progress = interactive(),
  verbosity = 0L,
  parse_special = FALSE,
  on_error = c("continue", "return", "stop"),
  journal = NULL
) {
  env <- rlang::current_env()
  object <- check_context(context)
  prompts <- as_prompts(texts, "texts")
  options <- task_options(prompts, env)
  result <- run_task("perplexity", task_table, object, prompts, options, env)
  keeping(
    result,
    document_answers("perplexity", context, prompts, result, result$perplexity, list())
  )
  result
}

# Returns a character vector per prompt.
check_continuations <- function(x, n) {
  arg <- "continuations"
  if (is.factor(x)) {
    x <- as.character(x)
  }
  if (!is.character(x) && !is.list(x) || !length(x) %in% c(1L, n)) {
    must <- sprintf(
      "a character vector or a list, with one element or one for each prompt (%d)",
      n
    )
    hint <- if (is.character(x)) {
      "A list has several continuations of a prompt: list(c(\" Paris\", \" Rome\"))."
    }
    abort_argument(arg, must, x, hint = hint)
  }
  texts <- as.list(unname(x))
  texts <- Map(
    \(continuation, i) {
      if (is.factor(continuation)) {
        continuation <- as.character(continuation)
      }
      if (!is.character(continuation) && !all(is.na(continuation))) {
        abort_argument(
          sprintf("%s[[%d]]", arg, i),
          "a character vector",
          continuation
        )
      }
      as.character(continuation)
    },
    texts,
    seq_along(texts)
  )
  rep_len(texts, n)
}

# Adds the continuations to the table of scores, and if `by_prompt` is TRUE the prompts: the table
# then has a row per continuation, otherwise a row per prompt.
new_scores <- function(table, prompts, texts, by_prompt) {
  first <- list(continuation = as.character(unlist(texts)))
  if (by_prompt) {
    prompt <- rep(prompts$names %||% seq_along(texts), lengths(texts))
    first <- c(list(prompt = prompt), first)
    prompts$names <- NULL
  }
  attributes <- attributes(table)
  attributes$names <- c(names(first), attributes$names)
  task_table(`attributes<-`(c(first, unclass(table)), attributes), prompts)
}
