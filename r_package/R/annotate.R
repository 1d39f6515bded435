#' Code the texts of a data frame by a codebook
#'
#' @description
#' Adds columns to a data frame: the label of each text, its probability, and how sure the model
#' is. One label a text is read off as probabilities, as [classify_parallel()] does, without
#' writing anything; of several labels each one is asked for by itself, yes or no, so that each
#' has a probability; fields are written by their schema.
#'
#' Rows, groups and other columns stay as they are. Texts that are the same are computed once. A
#' text that is NA gets NA, without an error.
#'
#' @param data A data frame: a tibble stays one, and groups stay.
#' @param text Its column of texts, without quotes, or an expression of its columns such as
#'   `paste(title, body)`, whose texts become a new column, `coded_text`.
#' @param codebook A codebook made by [codebook()].
#' @param context A context made by [context_create()].
#' @param ... Nothing: what follows must be named.
#' @param method `"classify"`: by probabilities; `"generate"`: the label is written, held to
#'   the labels; `"auto"`: `"generate"` for fields, otherwise `"classify"`.
#' @param columns Names of the new columns: a string that comes before each of them, or a
#'   vector such as `c(label = "topic", prob = NA)`, with NA for those that are not wanted;
#'   `p_` stands for how the names of the labels' probabilities begin.
#' @param calibrate Takes the model's preferences out of the probabilities: `"batch"` fitted to
#'   these rows, `"contextual"` to prompts without content; see [calibrate_batch()].
#' @param normalize As in [classify_parallel()].
#' @param chat TRUE has the model's chat template make the prompts.
#' @param split What becomes of texts that are too long. NULL: their rows have an error.
#'   Otherwise they are cut into parts of about the same length; `"first"`, `"last"`: that part
#'   alone counts; `"majority"`: the label of most parts; `"mean"`: the mean of their
#'   probabilities.
#' @param part_tokens Most tokens of a part; NULL: 2,048, or what the context has room for if
#'   that is less; a text for which there is room stays whole.
#' @param journal Path of a file that results are stored in as they come, so that the same call
#'   run again after a crash goes on; TRUE: makes a file in the working directory and tells
#'   its name. See [generate_parallel()].
#' @param progress,verbosity,on_error As in [generate_parallel()].
#' @param seed,temperature,max_tokens For what is written.
#' @returns `data` with new columns, and `llamaherd_coded` in front of its classes.
#'
#'   For one label: `label`, a factor, ordered for an ordinal scale; `prob`; `margin`; `entropy`;
#'   `coverage`; for an ordinal scale `mean`, the expected place from 1, or of labels
#'   that are numbers the expected number; `p_<label>`, the
#'   probability of each label; `error`, the reason why there is no label, NA if nothing went
#'   wrong; `coded_text`, if `text` is an expression, what was coded. See [classify_parallel()]
#'   for what they are. For several labels: `label`, those
#'   above 0.5 with `"; "` between them, `coverage`, `p_<label>` and `error`. For fields: those
#'   fields and `error`. With `method = "generate"`: `label` and `error`.
#'
#'   The attribute `llamaherd` is a list of how they came about: `label` and `text`, names of
#'   columns; `names`, the labels; `probs`, names of the columns of their probabilities;
#'   `columns`, names of the new columns by what they are; `codebook`; `run`, with the model's
#'   file and its SHA-256, the prompts, the settings, versions and the machine, and `run_json`,
#'   the same as JSON; `stats`. Verbs of dplyr and [merge()] keep it that keep the columns of texts
#'   and labels; [coded_restore()] gives it back to a data frame that has lost it.
#' @seealso [codebook()], [prompt_preview()], [robustness()], [last_results()] after Ctrl-C
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' news <- news[c(1, 16, 31, 46), ]
#' topics <- codebook(
#'   "Label the topic of each news text.",
#'   labels = c(Sports = "Matches, athletes.", Business = "Companies, prices, jobs.", Other = "")
#' )
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#'
#' coded <- annotate_texts(news, text, topics, context)
#' coded
#' attr(coded, "llamaherd")$run$model$sha256
#'
#' # Other names of columns; an expression in place of a column.
#' unsure <- news |>
#'   annotate_texts(paste("News:", text), topics, context, columns = "topic_") |>
#'   subset(topic_prob < 0.8)
#' unsure[c("topic_label", "topic_prob")]
annotate_texts <- function(
  data,
  text,
  codebook,
  context,
  ...,
  method = c("auto", "classify", "generate"),
  columns = NULL,
  calibrate = NULL,
  normalize = "sum",
  chat = FALSE,
  split = NULL,
  part_tokens = NULL,
  journal = NULL,
  progress = interactive(),
  verbosity = 0L,
  on_error = c("continue", "return", "stop"),
  seed = 1234L,
  temperature = 0,
  max_tokens = 512L
) {
  error_call <- rlang::current_env()
  check_dots(list(...), character())
  if (!is.data.frame(data)) {
    abort_argument("data", "a data frame", data, error_call)
  }
  check_given(
    text,
    paste("The column of texts. There are", toString(utils::head(names(data), 10)))
  )
  check_codebook(codebook)
  object <- check_context(context)
  texts <- texts_of(data, rlang::enquo(text), error_call)
  options <- coding_options(error_call)
  display <- list(verbosity = check_whole(verbosity), progress = check_flag(progress))

  roles <- py_call("annotate_roles", codebook$content, options, error_call = error_call)
  roles <- c(as_text(roles), if (!texts$is_column) "coded_text")
  names <- new_names(roles, columns, names(data), error_call)
  run <- quietly(
    display$verbosity < 0,
    run_coding(
      object,
      texts$values,
      codebook,
      options,
      new_bar(display$progress),
      error_call,
      display$verbosity
    )
  )
  result <- coded_frame(data, texts, codebook, names, run$columns)
  if (run$interrupted) {
    interrupt_coding(result, run, display$verbosity)
  }
  document_coding(result)
  report_coding(result, run$columns, options$on_error, display$verbosity, error_call)
  result
}

# The texts, NULL for NA; what their column is called, and whether `data` has it.
texts_of <- function(data, quosure, error_call) {
  plain <- without_groups(data)
  values <- rlang::try_fetch(
    rlang::eval_tidy(quosure, plain),
    error = \(cnd) {
      abort(
        c(
          "{.arg text} must be a column of {.arg data}, or an expression of its columns.",
          i = "There are {.field {names(data)}}."
        ),
        "argument",
        error_call,
        parent = cnd
      )
    }
  )
  name <- rlang::as_label(quosure)
  if (rlang::is_string(rlang::quo_get_expr(quosure)) || rlang::is_string(values)) {
    if (values %in% names(data)) {
      name <- values
      values <- plain[[values]]
    } else if (rlang::is_string(rlang::quo_get_expr(quosure))) {
      hint <- "Columns are named without quotes, or as a string."
      abort_argument("text", "a column of `data`", values, error_call, hint)
    }
  }
  if (is.factor(values)) {
    values <- as.character(values)
  }
  if (is.logical(values) && all(is.na(values))) {
    values <- as.character(values)
  }
  if (!is.character(values) || length(values) != nrow(data)) {
    must <- sprintf("texts, one for each of the %d rows", nrow(data))
    hint <- paste("There are the columns", toString(utils::head(names(data), 10)))
    abort_argument("text", must, values, error_call, hint)
  }
  utf8 <- as_utf8(values)
  bad <- which(is.na(utf8) & !is.na(values))
  if (length(bad) > 0) {
    arg <- sprintf("text[%d]", bad[[1]])
    hint <- "Convert it with iconv(), or declare its Encoding()."
    abort_argument(arg, "valid text", values[[bad[[1]]]], error_call, hint)
  }
  is_column <- name %in% names(data) && identical(as.character(plain[[name]]), values)
  list(values = text_list(utf8), texts = utf8, name = name, is_column = is_column)
}

# For Python: NULL for NA, which would become the text "NA".
text_list <- function(x) {
  values <- as.list(unname(x))
  values[is.na(x)] <- list(NULL)
  values
}

without_groups <- function(data) {
  new_frame(lapply(stats::setNames(nm = names(data)), \(name) data[[name]]), nrow(data))
}

# Options of Python's, from the arguments of annotate_texts().
coding_options <- function(env) {
  optional <- function(name, check) {
    if (!is.null(env[[name]])) check(env[[name]])
  }
  options <- list(
    method = check_choice(
      env$method,
      c("auto", "classify", "generate"),
      "method",
      env
    ),
    calibrate = optional("calibrate", \(x) {
      check_choice(x, c("batch", "contextual"), "calibrate", env)
    }),
    normalize = check_choice(
      env$normalize,
      c("sum", "token", "byte", "pmi"),
      "normalize",
      env
    ),
    chat = check_flag(env$chat, "chat", env),
    split = optional("split", \(x) {
      check_choice(x, c("first", "last", "majority", "mean"), "split", env)
    }),
    part_tokens = optional("part_tokens", \(x) {
      check_whole(x, "part_tokens", min = 1, error_call = env)
    }),
    journal = optional("journal", \(x) {
      if (rlang::is_bool(x)) {
        x
      } else {
        expand_path(check_string(x, "journal", error_call = env))
      }
    }),
    on_error = check_choice(
      env$on_error,
      c("continue", "return", "stop"),
      "on_error",
      env
    ),
    seed = as.double(check_whole(
      env$seed,
      "seed",
      min = 0,
      max = 2^32 - 1,
      error_call = env
    )),
    temperature = check_number(env$temperature, "temperature", error_call = env),
    max_tokens = check_whole(env$max_tokens, "max_tokens", min = 1, error_call = env),
    versions = list(R = as.character(getRversion()))
  )
  Filter(Negate(is.null), options)
}

# Names of the new columns by what they are; those not wanted are left out.
new_names <- function(roles, columns, there, error_call) {
  made <- stats::setNames(roles, roles)
  if (!is.null(columns)) {
    if (!is.character(columns) && !all(is.na(columns))) {
      abort_argument("columns", "a string or a named vector", columns, error_call)
    }
    if (is.null(names(columns))) {
      made[] <- paste0(check_string(columns, "columns", error_call = error_call), roles)
    } else {
      made <- renamed(made, columns, error_call)
    }
  }
  taken <- made[made %in% there]
  if (length(taken) > 0) {
    abort(
      c(
        "{.arg data} has a column {.field {taken[[1]]}} already.",
        i = "Choose another name, as with {.code columns = c({names(taken)[[1]]} = \"...\")},
             or with {.code columns = \"coded_\"} for all."
      ),
      "argument",
      error_call
    )
  }
  if (anyDuplicated(made)) {
    twice <- made[[anyDuplicated(made)]]
    abort(
      "{.arg columns} would make two columns called {.field {twice}}.",
      "argument",
      error_call
    )
  }
  made
}

renamed <- function(made, columns, error_call) {
  given <- names(columns)
  has_each <- any(startsWith(names(made), "p_"))
  unknown <- setdiff(given, c(names(made), if (has_each) "p_"))
  if (length(unknown) > 0) {
    abort(
      c(
        "{.arg columns} names {.field {unknown[[1]]}}, which is no new column.",
        i = "There are {.field {names(made)}}."
      ),
      "argument",
      error_call
    )
  }
  if ("p_" %in% given) {
    each <- startsWith(names(made), "p_")
    start <- columns[["p_"]]
    made[each] <- if (is.na(start)) {
      NA
    } else {
      paste0(start, substring(names(made)[each], 3L))
    }
  }
  own <- given[given != "p_" | "p_" %in% names(made)]
  made[own] <- as.character(columns[own])
  made[!is.na(made)]
}

# Returns Python's columns, whether Ctrl-C ended the call, and the journal's path.
run_coding <- function(
  context,
  texts,
  codebook,
  options,
  bar,
  error_call,
  verbosity = -1L
) {
  start <- py_call(
    "annotate_start",
    context,
    texts,
    codebook$content,
    options,
    error_call = error_call
  )
  journal <- start[["journal"]]
  if (isTRUE(options$journal) && verbosity >= 0) {
    cli::cli_inform("The journal is {.path {journal}}.")
  }
  run <- run_in_slices(
    start,
    \(job) py_call("annotate_result", job, error_call = error_call),
    bar,
    error_call
  )
  c(run, list(journal = journal))
}

# `texts` is what texts_of() returned.
coded_frame <- function(data, texts, codebook, names, found) {
  labels <- as_text(found[["labels"]])
  text <- if (texts$is_column) texts$name else unname(names["coded_text"])
  # Counts by label, say, are no coded texts.
  needs <- c(names[names(names) == "label"], text[!is.na(text)])
  if (length(needs) < 2) {
    needs <- unique(c(needs, names))[1:2]
  }
  new <- new_columns(found, codebook, labels)
  new$coded_text <- texts$texts
  new <- new[names(names)]
  known <- inherits(data, "llamaherd_coded")
  data <- if (known) without_coding(data) else data
  for (role in names(names)) {
    data[[names[[role]]]] <- new[[role]]
  }
  each <- startsWith(names(names), "p_") & codebook$type != "fields"
  as_coded(
    data,
    list(
      label = if ("label" %in% names(names)) names[["label"]],
      text = text,
      names = as_text(found[["names"]]),
      probs = stats::setNames(names[each], substring(names(names)[each], 3L)),
      columns = names,
      codebook = codebook,
      needs = unname(needs),
      answers = if (codebook$type == "fields") labels,
      run = jsonlite::parse_json(found[["run"]]),
      run_json = found[["run"]],
      stats = new_stats(found[["stats"]])
    )
  )
}

# The new columns by what they are.
new_columns <- function(found, codebook, labels) {
  values <- found[["columns"]]
  if (codebook$type == "fields") {
    fields <- text_columns(labels, schema_columns(codebook$schema))
    roles <- names(values)
    fields[[roles[[length(roles)]]]] <- as_text(found[["errors"]])
    return(fields)
  }
  made <- lapply(values[setdiff(names(values), c("label", "error"))], numbers_of)
  made$error <- as_text(found[["errors"]])
  made$label <- if (codebook$type == "multiple") {
    labels
  } else {
    factor(labels, as_text(found[["names"]]), ordered = codebook$type == "ordinal")
  }
  made
}

interrupt_coding <- function(result, run, verbosity) {
  the$last_results <- result
  is_interrupted(Sys.sleep(0))
  n_done <- sum(!is.na(as_text(run$columns[["labels"]])))
  message <- sprintf("Interrupted: %d of %d texts coded.", n_done, nrow(result))
  interrupt(message, result, verbosity, run$journal)
}

# Signs that labels say little of the texts.
inform_notes <- function(notes) {
  for (note in notes) {
    cli::cli_inform(c("!" = escape_cli(note)))
  }
}

# One warning for all that failed, or the error that on_error = "stop" asks for.
report_coding <- function(result, found, on_error, verbosity, error_call) {
  if (verbosity >= 2) {
    cli::cli_inform("{attr(result, 'llamaherd')$stats$line}")
  }
  if (verbosity >= 0) {
    inform_notes(as_text(found[["notes"]]))
  }
  errors <- as_text(found[["errors"]])
  failed <- which(!is.na(errors))
  if (length(failed) == 0) {
    return(invisible())
  }
  ended <- startsWith(errors[failed], "not computed: ")
  first <- c(failed[!ended], failed)[[1]]
  if (on_error == "stop") {
    abort(
      "Row {first} failed: {errors[[first]]}",
      "generation",
      error_call,
      results = result
    )
  }
  if (verbosity >= 0) {
    shown <- utils::head(c(failed[!ended], failed[ended]), 3)
    bullets <- escape_cli(sprintf("row %d: %s", shown, errors[shown]))
    warn(
      c(
        "{length(failed)} of {nrow(result)} text{?s} {cli::qty(length(failed))}{?was/were} not
         coded, and {?is/are} NA.",
        stats::setNames(bullets, rep("x", length(bullets))),
        i = "The column {.field error}, or what you called it, has all reasons."
      ),
      "failed",
      error_call
    )
  }
}
