#' Answer many prompts at once
#'
#' @description
#' Answers every prompt of a vector in one call. Up to `n_seq_max` prompts run at a time (see
#' [context_create()]); when a prompt ends, the next one starts. If several prompts have the same
#' beginning, this beginning is computed only once. A prompt that fails becomes NA; the other
#' prompts are answered.
#'
#' @section Interrupting a call:
#' Ctrl-C ends the call within a fraction of a second and also interrupts the loop or script around
#' it; a script ends with exit status 1. Finished answers are kept: [last_results()] returns them.
#' The field `results` of the interrupt condition also contains the finished answers:
#'
#'     answers <- tryCatch(
#'       generate_parallel(context, prompts),
#'       interrupt = \(cnd) cnd$results
#'     )
#'
#' `as.data.frame()` also contains the beginnings of unfinished answers. With a `journal`, the same
#' call run again continues where this call ended.
#'
#' @section Arguments with one value per prompt:
#' The numeric sampling arguments, `max_tokens`, `seed`, `grammar` and `regex` accept one value for
#' all prompts or one value per prompt. `choices` and `schema` also accept a list with one element
#' per prompt; the element is NULL for a prompt without choices or schema. If schemas differ, the
#' result has the columns of all schemas; a prompt without a schema has a row of NA, and its answer
#' is in `attr(result, "text")`.
#'
#' @section Structured data:
#' With `schema` every answer is JSON that follows the schema, and the result is a data frame with
#' one column per field; see [type_object()] for types and columns. The JSON has no white space
#' between its parts.
#'
#' The schema guarantees the form of an answer, not its content: the model sees only the prompt, not
#' the schema. [schema_prompt()] describes a schema in words. Small models answer less accurately
#' when they write JSON; a field for reasons before the field for the label may help.
#'
#' Some keywords of JSON Schema, such as `uniqueItems`, cannot be enforced during generation.
#' Answers are checked for these keywords afterwards, and an answer that violates the schema is
#' generated again with another seed. The prompt fails if every try violates the schema, or if
#' `max_tokens` cuts the JSON off: the row is NA, and `attr(result, "partial")` contains the text.
#'
#' @section Several samples per prompt:
#' With `n = 10` and a `temperature` above 0, each prompt is computed once and answered ten times.
#' The result is a `llamaherd_samples`, a list with one element per prompt, named like the prompts.
#' Each element is a `llamaherd_result` of length 10; if you set `schema`, it is a `llamaherd_table`
#' with 10 rows. The list can be a column of a data frame. [vote()] returns the majority.
#' [as.data.frame()][as.data.frame.llamaherd_result] returns a table with one row per sample. A
#' sample depends only on the seed, the index of the prompt and the index of the sample: the first
#' sample is the answer without `n`, and a larger `n` does not change earlier samples. Messages
#' about failures and interrupts count samples, not prompts.
#'
#' @section Journal:
#' With `journal = "run.sqlite"` each answer is on disk within a tenth of a second after it is
#' finished. After a crash, a power cut or Ctrl-C, run the same call again: answers in the journal
#' are returned without computation, the others are computed, and the result equals the result of an
#' uninterrupted call. Failed prompts are tried again. `attr(result, "stats")$n_journal` is the
#' number of answers taken from the journal.
#'
#' An answer is reused if the content of the model's file, the tokens of the prompt and all settings
#' that affect the text are the same. With `temperature` above 0, the seed of the prompt must be the
#' same, too; it is derived from `seed` and the index of the prompt. If `seed` is negative or NULL,
#' no sampled answer is reused. New answers are added to the journal, so several calls can use the
#' same file, also at the same time.
#'
#' The journal contains prompts and answers as plain text for everyone who may read the file. Keep
#' the journal on a local disk: SQLite cannot share a file over a network. If the file is removed or
#' moved while the call runs, it is written again at its path, with a warning. [journal_read()]
#' returns the journal as a data frame.
#'
#' @param context A `llamaherd_context` from [context_create()].
#' @param prompts Character vector; names and NA are allowed. A factor is also accepted, and a list
#'   with one element per prompt: a string or an integer vector of token ids. If a text has an
#'   invalid encoding, only this prompt fails. Prompts are not templates: fill in values with
#'   `paste0("Is this positive? ", texts)` or `glue::glue()`. A warning reports a placeholder
#'   such as `{texts}` in all prompts if you have a variable of this name.
#' @param max_tokens Maximum number of tokens to generate per prompt. NULL uses 512 with `schema`;
#'   with `choices`, as many tokens as the longest choice needs; and 100 otherwise, or with `chat`
#'   1,024, or as many as fit into the context. A message reports how many answers ended there.
#' @param top_k Number of most likely tokens to draw from. 0 or less draws from all tokens.
#' @param top_p Cumulative probability of the most likely tokens to draw from. 1 draws from all
#'   tokens.
#' @param temperature Sampling temperature. Higher values give more varied answers; 0 or less always
#'   chooses the most likely token.
#' @param repeat_last_n Number of last tokens, including prompt tokens, that the penalties consider.
#'   0 considers no tokens, -1 all tokens.
#' @param penalty_repeat Repetition penalty for tokens among the last `repeat_last_n` tokens. 1
#'   means no penalty.
#' @param seed Seed of the random numbers. Each prompt has its own seed, derived from `seed` and the
#'   index of the prompt. A negative value or NULL chooses a new seed per call, which `attr(result,
#'   "stats")$seed` contains.
#' @param progress TRUE shows a progress bar. In a Shiny app the bar appears in the browser; with
#'   `options(cli.progress_handlers = "progressr")` progressr shows it.
#' @param verbosity Negative values suppress warnings; 2 or more adds a line of statistics.
#' @param clean TRUE removes white space at both ends of answers, and chat template markers that the
#'   model wrote as text.
#' @param hash TRUE adds the attribute `hashes`.
#' @param min_p Minimum probability of a token to draw, relative to the most likely token. 0 draws
#'   from all tokens.
#' @param stop Texts that end an answer and are not part of the answer. NULL ends an answer at the
#'   model's end token or after `max_tokens`.
#' @param ignore_eos TRUE continues after the model's end token.
#' @param grammar Grammar that answers follow, in llama.cpp's GBNF notation, such as `root ::= "yes"
#'   | "no"`. An invalid grammar causes an error. If there is one grammar per prompt, only the
#'   prompt with the invalid grammar fails. For a set of labels use `choices`.
#' @param parse_special TRUE reads the texts of special tokens in prompts, such as `<|im_end|>`, as
#'   special tokens; FALSE reads them as plain text. `"auto"` uses TRUE for prompts made by
#'   [apply_chat_template()].
#' @param on_error What to do if a prompt fails. `"continue"` answers all other prompts. `"return"`
#'   starts no more prompts, finishes the running prompts and returns. `"stop"` signals an error of
#'   class `llamaherd_error_generation`, whose field `results` contains the finished answers.
#' @param journal Path of a file that stores each answer as it is finished; see below. The file is
#'   created if it does not exist. NULL stores nothing.
#' @param chat TRUE formats each prompt as a user message with the model's chat template, as
#'   [apply_chat_template()] does. A prompt may also be a conversation: a list of messages. Text in
#'   messages is never read as special tokens.
#' @param system Text of a system message before each prompt; needs `chat = TRUE`.
#' @param choices Texts; each answer is exactly one of them, without quotes or a space before it:
#'   `c("yes", "no")`. With `temperature = 0` the answer is the most probable choice, as in
#'   [classify_parallel()]. For a factor, the choices are its levels. A list contains one vector per
#'   prompt, or NULL for a prompt without choices. Thousands of choices are possible. Cannot be
#'   combined with `grammar`. Generation ends as soon as only one choice is possible, so fewer
#'   tokens may be generated than the answer contains.
#' @param n Number of samples per prompt; see below. Several samples need a `temperature` above 0.
#' @param schema Structure of each answer: a type such as [type_object()], also of package ellmer,
#'   or a JSON Schema as a list, a string or the path of a file. See below. Cannot be combined with
#'   `grammar`, `regex` or `choices`.
#' @param regex Regular expression that the whole answer matches, such as `"[0-9]{4}-[0-9]{2}"`.
#' @param show_schema TRUE describes `schema` to the model in the last message of the user, if
#'   `chat` is TRUE: the schema decides the form of the answer, but the model does not see it
#'   otherwise. See [schema_prompt()] for the words. FALSE leaves the messages unchanged.
#' @param strict TRUE refuses schemas with keywords that cannot be enforced during generation.
#' @param retries Maximum number of further tries for an answer that violates its schema.
#' @param dotted TRUE converts nested objects to columns with dotted names; FALSE converts them to
#'   data frame columns.
#' @param logprobs Number of alternatives whose log-probabilities are returned for each generated
#'   token. 0 returns only the log-probabilities of the generated tokens; NULL returns no
#'   log-probabilities.
#' @param sampling Rarely used sampling settings from [sampling_options()].
#' @param thinking Maximum number of tokens of a thought before the answer; FALSE turns thinking
#'   off, and with NULL the chat template decides. See [thinking()]. Needs `chat = TRUE`.
#' @param variables Further variables of the chat template, a named list such as
#'   `list(reasoning_effort = "low")`. Needs `chat = TRUE`.
#' @param template Jinja template to use in place of the model's chat template. Needs `chat = TRUE`.
#' @param prefix Text at the start of each answer; the text is written into the prompt and is not
#'   part of the result. Needs `chat = TRUE`.
#' @param merge_system TRUE puts the system text into the first user message where the template
#'   refuses a system role. Needs `chat = TRUE`.
#' @param quote_from Text from which the quotes of a schema are copied, see [type_quote()]: one
#'   text, or one text per prompt. NULL or NA uses the prompt, and with `chat = TRUE` the last
#'   message of the user.
#' @param ... Settings of [sampling_options()] by name. Any other name causes an error.
#' @returns With `n = 1` a `llamaherd_result`: a character vector of the same length and order as
#'   `prompts`, with their names. Prompts that failed or were not finished are NA, with one warning.
#'   If you edit the vector, for example with [trimws()], the result is a plain character vector.
#'   Attributes, with one element or row per prompt:
#'
#'   * `errors`: the reason why a prompt failed; NA for all others.
#'   * `finish_reason`: `"stop"` (end token, end of the grammar, or a text of `stop`), `"length"`
#'     (`max_tokens`), `"cancelled"` or `"error"`.
#'   * `partial`: the beginning of an unfinished answer; NA for all others.
#'   * `complete`: TRUE for answers whose `finish_reason` is `"stop"`. With `grammar`, `regex` or
#'     `choices`, an answer that was ended by a text of `stop` is complete only if the whole answer
#'     matches. One warning reports how many of these answers `max_tokens` cut off.
#'   * `timing`: a data frame of seconds from the start of the call: `queue_s` until the prompt got
#'     a slot, `first_token_s` until its first token, and `wall_s` until it was finished; NA if it
#'     did not run.
#'   * `usage`: a data frame with `n_prompt_tokens`, `n_reused_tokens` (tokens of the prompt that
#'     were already computed for another prompt), `n_generated_tokens` and `seed`.
#'   * `thoughts`, if the model could think: a data frame with `thinking`, the text of the thought
#'     before the answer, `n_thinking_tokens`, and `thinking_complete`, which is FALSE if the
#'     thought used up its budget. NA where a prompt failed. The answer and all other attributes do
#'     not include the thought.
#'   * `hashes`: a list with `input` and `output`, the SHA-256 of the UTF-8 bytes of each prompt and
#'     answer, equal to `printf %s "$text" | sha256sum`. Token ids are hashed as text, separated by
#'     single spaces. The texts of a conversation are separated by newlines.
#'   * `logprobs`, on request: a list with one data frame per prompt; a data frame has one row per
#'     token of the answer. The columns are `token` (text of the token), `id`, `logprob` (natural
#'     logarithm of the probability that the model computed, before grammar, penalties and
#'     temperature change it) and `top` (a list of data frames of the most likely tokens at that
#'     position). `logprob` is NaN for tokens that were not drawn, such as the remaining tokens of a
#'     choice. NULL for prompts without an answer.
#'
#'   The attribute `stats` has statistics of the call. [as.data.frame()] returns a table with one
#'   row per prompt.
#'
#'   With `schema` a `llamaherd_table`: a data frame with one row per prompt and one column per
#'   field, NA where a prompt failed. Column types do not depend on the answers, except that whole
#'   numbers beyond 32 bits make a column double. Row names are the names of the prompts if these
#'   are unique. The table has the attributes above and the attribute `text`, the JSON of the
#'   answers. Thoughts are also columns. In [dplyr::mutate()] the result becomes columns of the
#'   data; subsets of rows are plain data frames.
#' @seealso [generate()] for a single prompt, [thinking()] for models that think,
#'   [apply_chat_template()] for chat models, [journal_read()] for journals.
#' @concept finish reason
#' @concept unfinished answer
#' @concept invalid encoding
#' @concept surrogate
#' @concept JSON
#' @concept journal
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' answers <- generate_parallel(
#'   context,
#'   c(a = "The sky is", b = "Two and two is"),
#'   max_tokens = 10
#' )
#' answers
#' as.data.frame(answers)
#' attr(answers, "stats")
#'
#' schema <- type_object(city = type_string(), rivers = type_enum(c("one", "many")))
#' generate_parallel(
#'   context,
#'   "Prague lies on the Vltava.",
#'   chat = TRUE,
#'   system = schema_prompt(schema),
#'   schema = schema
#' )
#' close(model)
generate_parallel <- function(
  context,
  prompts,
  max_tokens = NULL,
  top_k = 40L,
  top_p = 1.0,
  temperature = 0.0,
  repeat_last_n = 64L,
  penalty_repeat = 1.0,
  seed = 1234L,
  progress = interactive(),
  verbosity = 0L,
  clean = FALSE,
  hash = TRUE,
  min_p = 0.05,
  stop = NULL,
  ignore_eos = FALSE,
  grammar = NULL,
  parse_special = "auto",
  on_error = c("continue", "return", "stop"),
  journal = NULL,
  chat = FALSE,
  system = NULL,
  choices = NULL,
  n = 1L,
  schema = NULL,
  regex = NULL,
  strict = FALSE,
  show_schema = TRUE,
  retries = 2L,
  dotted = FALSE,
  logprobs = NULL,
  sampling = NULL,
  thinking = NULL,
  variables = NULL,
  template = NULL,
  prefix = NULL,
  merge_system = FALSE,
  quote_from = NULL,
  ...
) {
  env <- rlang::current_env()
  object <- check_context(context)
  prompts <- chat_or_prompts(prompts, "prompts", env)
  more <- py_arguments("on_error", "n", if (!is.null(journal)) "journal")
  run_generation("generate_parallel", object, prompts, env, list(...), more, progress)
}

# Answers prompts with the arguments of generate() or generate_parallel(), whose frame is `env`;
# `more` are further options.
run_generation <- function(event, object, prompts, env, dots, more, progress = FALSE) {
  n_prompts <- length(prompts$values)
  options <- c(call_options(env, dots, n_prompts), prompts$options, more)
  verbosity <- env$verbosity
  dotted <- check_flag(env$dotted, "dotted")
  start <- c("model_start", "generate")
  make <- answers_maker(options, dotted, env$context$model)
  result <- run_call(start, make, object, prompts, options, verbosity, progress)
  n <- options$n %||% 1L
  constraints <- mget(c("grammar", "regex", "choices"), env)
  is_empty <- vapply(constraints, \(x) is.null(x) || identical(x, ""), NA)
  is_bound <- is.null(env$schema) && !all(is_empty)
  samples <- as_samples(result, prompts$names, n)
  keeping(samples, {
    tell_failures(result, options$on_error, verbosity, is_bound, n)
    text <- output_texts(result)
    document_answers(
      event,
      env$context,
      prompts,
      result,
      text,
      options$sampling
    )
  })
  samples
}

# Returns the function that creates the result of answers: texts, or data with a schema. The columns
# are determined when Python has read the schema.
answers_maker <- function(options, dotted, model) {
  schemas <- options$each[["schema"]]
  has_schema <- !vapply(schemas, is.null, NA)
  if (is.null(schemas)) {
    schemas <- options$sampling[["schema"]]
    has_schema <- TRUE
  }
  force(dotted)
  function(result, prompts) {
    result <- new_result(result, prompts)
    if (!is.null(options$logprobs)) {
      parts <- attr(result, "logprobs") %||% vector("list", length(result))
      attr(result, "logprobs") <- logprob_frames(parts, options$logprobs, model)
    }
    if (is.null(schemas)) {
      return(result)
    }
    has_schema <- rep(has_schema, each = length(result) %/% length(has_schema))
    answers_table(result, schema_columns(unlist(schemas)), dotted, has_schema)
  }
}
