#' Answer many prompts at once
#'
#' @description
#' Answers every prompt of a vector. Up to `n_seq_max` of them (see [context_create()]) are
#' worked on at once, and one that ends makes room for the next; beginnings that prompts
#' share are computed once; a prompt that fails becomes NA and the others are answered.
#'
#' @section Ctrl-C:
#' Ctrl-C ends the call within a fraction of a second, and goes on: a loop or a script around
#' it ends as well, the latter with an exit status of 1, so that nobody takes a part of the
#' answers for all of them. What had finished is not lost: [last_results()] returns it, and
#' so does the interrupt itself, which has it as `results`:
#'
#'     answers <- tryCatch(
#'       generate_parallel(context, prompts),
#'       interrupt = \(cnd) cnd$results
#'     )
#'
#' `as.data.frame()` also shows what there was of unfinished answers. With a `journal`, the
#' same call run again goes on where this one ended.
#'
#' @section Arguments with one value per prompt:
#' The numeric arguments of sampling, `max_tokens`, `seed`, `grammar` and `regex` take one value
#' for all prompts or one for each of them, `choices` and `schema` a list with one for each of
#' them, or NULL for none. The columns of schemas that differ are put together; a prompt
#' without one has a row of NA, and its answer is in `attr(result, "text")`.
#'
#' @section Data:
#' With `schema` every answer is JSON that follows it, and the result is a data frame with a
#' column for each field: see [type_object()] for the types, and what becomes of them. Answers
#' are as short as JSON can be, without white space between its parts.
#'
#' The form is sure, the content is the model's: it knows of the fields only what the prompt
#' says. [schema_prompt()] writes that down. Small models judge worse when they have to write
#' JSON; a field for reasons before that for the label may help, as it gives them room.
#'
#' Some keywords of JSON Schema cannot be enforced while an answer is written, such as
#' `uniqueItems`. What they say is checked afterwards, and an answer that fails is tried again,
#' with another seed. One that fails each time is the prompt's error, and so is one that
#' `max_tokens` cut off: the row is NA and `attr(result, "partial")` has the text.
#'
#' @section Several samples of each prompt:
#' With `n = 10` each prompt is computed once and answered ten times, with `temperature` above
#' 0, and the result is a `llamaherd_samples`: a list with a `llamaherd_result` of length 10
#' for each prompt, with the prompts' names, fit for a list column. [vote()] gives the
#' majority, [as.data.frame()][as.data.frame.llamaherd_result] a table with one row per
#' sample. Each sample depends on the seed, the prompt's place and its own number only: the
#' first is what the prompt gets without `n`, and more of them leave those before as they
#' are. The messages of failures and Ctrl-C count samples. With `schema` the elements are
#' `llamaherd_table`s.
#'
#' @section Further sampling settings:
#' `...` takes these, by name; any other name is an error. The values given here switch
#' them off. `typical_p` (1), `top_n_sigma` (-1), `penalty_freq` (0), `penalty_present`
#' (0), `xtc_probability` (0) and `xtc_threshold`, `dry_multiplier` (0), `dry_base`,
#' `dry_allowed_length`, `dry_penalty_last_n` and `dry_breakers` (texts), `mirostat` (0;
#' or 1 or 2), `mirostat_tau` and `mirostat_eta`, and `logit_bias`: a numeric vector with
#' token ids as names, such as ``c(`42` = -Inf)`` to forbid token 42.
#'
#' @section Journal:
#' With `journal = "run.sqlite"` each finished result is on the disk a tenth of a second
#' later. After a crash, a power cut or Ctrl-C, run the same call again: what the journal
#' has is answered at once, the rest is computed, and the result is that of an unbroken
#' run. Prompts that failed are tried again. `attr(result, "stats")$n_journal` says how many
#' answers came from the journal.
#'
#' An answer is found again if the content of the model's file, the prompt's tokens and all
#' settings that decide the text are the same, and where something is drawn
#' (`temperature` above 0) also the prompt's seed, which is made from `seed` and the
#' prompt's place: with a negative seed or NULL nothing is. Anything else adds to the
#' journal. So one file can serve many calls, also at the same time.
#'
#' The journal holds prompts and answers as plain text, readable for whoever may read the
#' file; nothing of it leaves the machine. Keep it on a disk of this machine: SQLite cannot
#' share it over a network. If it is removed or moved while the call runs, it is made anew at
#' its path with all it held, and a warning tells. [journal_read()] gives a table of it.
#'
#' @param context A `llamaherd_context` from [context_create()].
#' @param prompts Character vector, names and NA allowed. Also a factor, or a list with a
#'   string or an integer vector of token ids for each prompt. Bytes that are no text in
#'   their encoding fail their own prompt.
#' @param max_tokens Number of tokens to generate for each prompt at most. NULL: 100, with
#'   `schema` 512, or with `choices` as many as any of them can take, so that none is cut off.
#' @param top_k Draw from the `top_k` most likely tokens only; 0 or less: from all.
#' @param top_p Draw from the most likely tokens that have this probability together; 1:
#'   from all.
#' @param temperature 0 or less always takes the most likely token. Larger values draw, and
#'   the larger, the wilder.
#' @param repeat_last_n Number of last tokens that the penalties look at, if one is set;
#'   0: none, -1: all.
#' @param penalty_repeat Penalty for tokens that are among those; 1: none.
#' @param seed Start of the random numbers. Each prompt has its own, derived from the seed
#'   and the prompt's place in the vector. Negative or NULL: a new one each time, which
#'   `attr(result, "stats")$seed` tells.
#' @param progress TRUE shows a progress bar.
#' @param verbosity Negative: no warnings. From 2 on, also a line of statistics. The rest
#'   is the default: errors and warnings.
#' @param clean TRUE removes white space around the answers and the markers of chat
#'   templates that a model wrote out as text.
#' @param hash TRUE adds the attribute `hashes`.
#' @param min_p Draw from tokens that are at least this likely, compared to the most
#'   likely one; 0: from all.
#' @param stop Texts that end an answer and are not part of it. NULL: an answer ends where
#'   the model ends it, or after `max_tokens`.
#' @param ignore_eos TRUE does not let the model end an answer.
#' @param grammar A grammar that the answers follow, in llama.cpp's notation GBNF, such as
#'   `root ::= "yes" | "no"`. One that cannot be parsed is an error, or if there is one
#'   for each prompt, that prompt fails. For labels there is `choices`.
#' @param parse_special Whether texts of special tokens, such as `<|im_end|>`, in prompts
#'   are these tokens (TRUE) or plain text (FALSE). `"auto"` takes prompts that
#'   [apply_chat_template()] made for the first and others for the second.
#' @param on_error What to do when a prompt fails. `"continue"`: answer all others.
#'   `"return"`: start no more prompts, finish those in work, and return. `"stop"`: an error
#'   of class `llamaherd_error_generation`, whose field `results` has what was done.
#' @param journal Path of a file that results are stored in as they are finished, made if
#'   it is not there; NULL: none. See below.
#' @param chat TRUE takes each prompt for what a user says to a chat model, and makes the
#'   prompt with the model's chat template, as [apply_chat_template()] does. An element may
#'   also be a conversation: a list of messages, as described there. Nothing that stands in
#'   a text is taken for a special token.
#' @param system With `chat = TRUE`: text of a system message that comes before each prompt.
#' @param choices Texts of which each answer is one, such as `c("yes", "no")`: exactly,
#'   without quotes or a space before it, whatever characters they have; with `temperature`
#'   0 the most probable one, as [classify_parallel()] has it. Thousands are fine. A factor
#'   stands for its levels; a list has a vector for each prompt, or NULL for none. Not together
#'   with `grammar`. An answer is known as soon as only one choice is left, so that it may take
#'   fewer tokens than its text has.
#' @param n Number of samples of each prompt, see below. More than one need a `temperature`
#'   above 0: others would all be the same.
#' @param schema What each answer is made of: a type such as [type_object()] makes, those of
#'   the package ellmer among them, or a JSON Schema, which may be a list, a text or the path of
#'   a file. See below. Not together with `grammar`, `regex` or `choices`.
#' @param regex Regular expression that the whole answer matches, such as
#'   `"[0-9]{4}-[0-9]{2}"`.
#' @param strict TRUE refuses schemas with keywords that cannot be enforced, and names them.
#' @param retries How often an answer is tried again that does not follow its schema.
#' @param dotted TRUE makes columns with dotted names of objects in objects, where FALSE makes
#'   data frames in columns.
#' @param logprobs Number of the most likely tokens to tell the log-probabilities of, in the
#'   place of each token of an answer; 0: of its own tokens only. NULL: of none.
#' @param ... Further sampling settings, see below.
#' @returns With `n = 1` a `llamaherd_result`: a character vector of the same length and order as
#'   `prompts`, with their names; none for no prompts. NA for prompts that failed or were not
#'   finished, and then one warning says so. Editing it, with [trimws()] for example, gives a
#'   plain character vector. Its attributes, each with one element or row per prompt:
#'
#'   * `errors`: the reason why a prompt failed; NA if it did not.
#'   * `finish_reason`: `"stop"` (the model or the grammar ended the answer, or a stop
#'     text), `"length"` (`max_tokens`), `"cancelled"` or `"error"`.
#'   * `partial`: what there was of an answer that was not finished; NA for others.
#'   * `complete`: TRUE for answers that came to their own end, which are those with
#'     `"stop"`; with `grammar`, `regex` or `choices` one that a text of `stop` ended only if
#'     what is before it is whole. If `max_tokens` cut any of these off, one warning says so.
#'   * `timing`: a data frame with `queue_s`, `first_token_s` and `wall_s`: seconds from the call's
#'     beginning until the prompt got a slot, had its first token, was done; NA if it did not run.
#'   * `usage`: a data frame with `n_prompt_tokens`, `n_reused_tokens` (those not computed
#'     for this prompt itself), `n_generated_tokens` and `seed`.
#'   * `hashes`: a list with `input` and `output`, the SHA-256 of the UTF-8 bytes of each
#'     prompt and each answer, as `printf %s "$text" | sha256sum` computes it. For token
#'     ids that of the ids with single spaces between them, for a conversation that of its
#'     texts with newlines between them.
#'   * `logprobs`, if asked for: a list with a data frame for each prompt, which has a row for
#'     each token of the answer: `token`, its text, `id`, `logprob`, the natural logarithm of the
#'     probability that the model itself gave it, before grammars, penalties and temperature,
#'     and `top`, a list of data frames with the same of the most likely tokens in its place.
#'     NaN where a token was not drawn, as the rest of a choice is not. NULL for prompts
#'     without an answer.
#'
#'   The attribute `stats` has statistics of the whole call. [as.data.frame()] gives a
#'   table with one row per prompt.
#'
#'   With `schema` a `llamaherd_table`: a data frame with a row for each prompt and a column for
#'   each field, NA where a prompt failed. Columns have the same types whatever the answers are;
#'   whole numbers beyond 32 bits alone make a column of them double. Its row names are the
#'   prompts' names, if no two are the same. It has the attributes above, and `text`, the JSON.
#'   In [dplyr::mutate()] it becomes columns of the data; rows cut out of it are a plain data
#'   frame.
#' @seealso [generate()] for a single prompt, [apply_chat_template()] for chat models,
#'   [journal_read()] for journals.
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
  retries = 2L,
  dotted = FALSE,
  logprobs = NULL,
  ...
) {
  error_call <- rlang::current_env()
  object <- check_context(context)
  prompts <- chat_or_prompts(prompts, "prompts", error_call)
  options <- sampling_options(error_call, list(...), length(prompts$values))
  options <- c(options, prompts$options)
  options$on_error <- check_choice(on_error, c("continue", "return", "stop"))
  options$journal <- expand_path(check_string(journal, null = TRUE))
  display <- check_display(error_call)
  progress <- check_flag(progress)
  options$n <- check_whole(n, min = 1)

  task <- generate_task(options, check_flag(dotted), context$model)
  result <- run_call(task, object, prompts, options, display, progress, error_call)
  bound <- is.null(schema) & is_bound(grammar, regex, choices, length(prompts$values))
  bound <- rep(bound, each = n)
  tell_failures(result, options$on_error, display$verbosity, error_call, bound, n)
  document_answers(
    "generate_parallel",
    context,
    prompts,
    result,
    output_texts(result),
    options$sampling
  )
  as_samples(result, prompts$names, n)
}

# Asks for answers: texts, or with a schema data. Which columns it has is found out when
# Python has taken it.
generate_task <- function(options, dotted, model) {
  each <- options$each[["schema"]]
  schemas <- unlist(c(options$sampling[["schema"]], each))
  has_schema <- if (is.null(each)) {
    TRUE
  } else {
    rep(!vapply(each, is.null, logical(1)), each = options$n)
  }
  force(dotted)
  make <- function(columns, prompts, display) {
    if (!is.null(schemas)) {
      display$clean <- FALSE
    }
    result <- new_result(columns, prompts, display)
    if (!is.null(options$logprobs)) {
      attr(result, "logprobs") <- logprob_frames(
        columns[["logprobs"]],
        options$logprobs,
        model
      )
    }
    if (is.null(schemas)) {
      result
    } else {
      answers_table(result, schema_columns(schemas), dotted, has_schema)
    }
  }
  new_task("generate_start", "job_result", make)
}
