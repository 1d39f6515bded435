#' Label the texts of a data frame by a codebook
#'
#' @description
#' Adds columns to a data frame: the label of each text, its probability, and measures of certainty.
#' A single label per text is classified by probability, as in [classify_parallel()], without
#' generating text. If a text can have several labels, the model answers one yes/no question per
#' label, so that each label has a probability. Fields are generated as JSON that follows the schema
#' of the codebook.
#'
#' Rows, groups and other columns are kept. Equal texts are computed once. If a text is NA, its new
#' columns are NA; this is not an error.
#'
#' @param data A data frame; tibbles and groups are kept.
#' @param text Column of texts, unquoted, or an expression that uses columns, such as `paste(title,
#'   body)`, whose values become a new column, `coded_text`.
#' @param codebook A codebook from [codebook()].
#' @param context A context from [context_create()].
#' @param ... Must be empty: all further arguments must be named.
#' @param verbosity Negative values suppress warnings; 2 or more adds a line of statistics.
#' @returns `data` with new columns and the additional class `llamaherd_coded`.
#'
#'   With a single label per text, the new columns are:
#'
#'   * `label`: a factor; ordered for an ordinal scale; numeric if the labels of an ordinal scale
#'     are numbers.
#'   * `prob`, `margin`, `entropy`, `coverage`: see [classify_parallel()].
#'   * `mean`, for an ordinal scale: the expected position from 1, or the expected number if all
#'     labels are numbers.
#'   * `p_<label>`: the probability of each label.
#'   * `error`: the reason why there is no label; NA for rows with a label.
#'   * `coded_text`, if `text` is an expression: its values.
#'
#'   With a scale of numbers, the new columns are `label` (the most probable number), `mean` (the
#'   expected value), `sd` (the standard deviation of the probabilities), `prob`, `margin`,
#'   `entropy`, `coverage` and `error`; the argument `distribution` adds further columns.
#'
#'   With several labels per text, the new columns are `label` (the labels with a probability above
#'   0.5, joined by `"; "`), `coverage`, `p_<label>` and `error`. With fields, there is a column per
#'   field, and `error`. With spans, the new columns are `spans` (a list column of data frames with
#'   the columns `label`, `quote`, `start` and `end`, see [coded_spans()]) and `error`. With
#'   `method = "generate"`, the new columns are `label` and `error`.
#'
#'   Some arguments add columns before `error`:
#'
#'   * `until` and `larger` add `step`, the step that labelled the text: `"model"`, `"head"` or
#'     `"unsure"`.
#'   * `evidence` adds `quote` (verbatim words of the text), `start` and `end` (positions of the
#'     first and last character of the quote in the text, as [substr()] counts them). `quote`,
#'     `start` and `end` are NA in rows without a label, and in rows whose quote could not be
#'     generated; a message reports missing quotes.
#'   * `thinking` adds `thinking`, `n_thinking_tokens` and `thinking_complete`; with several
#'     thoughts per text also `between`; see [classify_parallel()]. With several labels per text, or
#'     several parts of a long text, each label or part has its own thought: `thinking` is the text
#'     of the first thought, and `n_thinking_tokens` counts the tokens of all thoughts.
#'
#'   The attribute `llamaherd` is a list that documents the labels:
#'
#'   * `label`, `text`: names of the columns of labels and texts.
#'   * `names`: the labels.
#'   * `probs`: names of the columns of probabilities.
#'   * `columns`: names of the new columns by role.
#'   * `codebook`: the codebook.
#'   * `run`: the model's file and its SHA-256, prompts, settings, versions and machine; `run_json`:
#'     the same as JSON.
#'   * `stats`: statistics of the call.
#'
#'   Functions of dplyr and [merge()] keep this attribute while the columns of texts and labels
#'   exist; [coded_restore()] restores it.
#' @seealso [codebook()], [prompt_preview()], [robustness()], [last_results()] after an interrupt
#' @concept classifier on embeddings
#' @concept head
#' @concept cascade
#' @concept text classification
#' @name annotate_texts
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
NULL

# Runs a call of annotate_texts(). `quosure` is the column of texts, `env` the call's frame.
code_data <- function(data, text, quosure, codebook, context, env) {
  check_frame(data)
  check_given(text, paste("The column of texts. There are", listed_columns(data)))
  check_class(codebook, "llamaherd_codebook")
  object <- check_context(context)
  warn_placeholders_of(codebook$question, setdiff(names(data), "text"))
  texts <- texts_of(data, quosure)
  options <- coding_options(env)
  if (length(texts$bad) > 0 && identical(options$on_error, "stop")) {
    abort("Row {texts$bad[[1]]} failed: {invalid_text}.", "generation")
  }
  verbosity <- check_whole(env$verbosity, "verbosity")
  bar <- new_bar(env$progress)

  roles <- py_call("annotate_roles", as_python(codebook), options)
  roles <- c(as_text(roles), if (!texts$is_column) "coded_text")
  names <- new_names(roles, env$columns, names(data))
  frame_of <- function(answers) {
    answers <- with_invalid_texts(answers, texts$bad)
    # The class of the data frame may refuse the columns.
    keeping(
      coded_frame(plain_texts(texts), texts, codebook, names, answers),
      coded_frame(data, texts, codebook, names, answers)
    )
  }
  journal <- NULL
  suspendInterrupts({
    run <- quietly(
      verbosity < 0,
      run_in_slices(
        py_call("annotate_start", object, texts$values, as_python(codebook), options),
        bar = bar,
        as_value = frame_of,
        begun = function(started) {
          journal <<- r_path(started[["journal"]])
          if (isTRUE(options$journal) && verbosity >= 0) {
            cli::cli_inform("The journal is {.path {journal}}.")
          }
        }
      )
    )
    result <- frame_of(run$value)
    if (run$interrupted) {
      n_done <- sum(!is.na(run$value$labels))
      message <- sprintf("Interrupted: %d of %d texts coded.", n_done, nrow(result))
      interrupt(message, result, verbosity, journal)
    }
  })
  keeping(result, {
    document_coding(result)
    answers <- with_invalid_texts(run$value, texts$bad)
    report_coding(result, answers, options$on_error, verbosity)
  })
  result
}

# Warns of signs that the labels do not reflect the texts.
inform_notes <- function(notes) {
  for (note in notes) {
    cli::cli_inform(c("!" = escape_cli(note)))
  }
}

# Gives one warning for all failed texts, or the error for on_error = "stop".
report_coding <- function(result, answers, on_error, verbosity) {
  if (verbosity >= 2) {
    cli::cli_inform("{format(attr(result, 'llamaherd')$stats)}")
  }
  if (verbosity >= 0) {
    inform_notes(answers$notes)
  }
  errors <- answers$errors
  failed <- which(!is.na(errors))
  if (length(failed) == 0) {
    return(invisible())
  }
  ended <- answers$error_codes[failed] %in% "cancelled"
  first <- c(failed[!ended], failed)[[1]]
  if (on_error == "stop") {
    abort("Row {first} failed: {errors[[first]]}", "generation", results = result)
  }
  if (verbosity >= 0) {
    rows <- utils::head(c(failed[!ended], failed[ended]), 3)
    bullets <- escape_cli(sprintf("row %d: %s", rows, errors[rows]))
    warn(
      c(
        "{length(failed)} of {nrow(result)} text{?s} {cli::qty(length(failed))}{?was/were} not
         coded, and {?is/are} NA.",
        stats::setNames(bullets, rep("x", length(bullets))),
        i = "The column {.field error}, or your name for it, contains all reasons."
      ),
      "failed"
    )
  }
}
