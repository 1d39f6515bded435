# Candidates of compare_codebooks(): checks them, runs them one after the other, and makes the
# result.

# Returns the candidates with names, and their contexts as objects of Python.
check_candidates <- function(x, context, error_call) {
  if (inherits(x, c("llamaherd_codebook", "llamaherd_candidate"))) {
    x <- list(x)
  }
  fits <- \(one) inherits(one, c("llamaherd_codebook", "llamaherd_candidate"))
  if (!is.list(x) || length(x) == 0 || !all(vapply(x, fits, logical(1)))) {
    must <- "a named list of codebooks, or of what candidate() returns"
    abort_argument("candidates", must, x, error_call)
  }
  names <- rlang::names2(x)
  names <- ifelse(nzchar(names), names, as.character(seq_along(x)))
  if (anyDuplicated(names)) {
    must <- "a list with unique names"
    abort_argument("candidates", must, x, error_call)
  }
  made <- Map(
    \(one, name) {
      if (inherits(one, "llamaherd_codebook")) {
        one <- list(codebook = one, context = NULL, settings = list())
      }
      own <- one$context %||% context
      if (is.null(own)) {
        must <- sprintf("a context, because candidate \"%s\" has none of its own", name)
        abort_argument("context", must, own, error_call)
      }
      c(
        one[c("codebook", "settings")],
        list(name = name, object = check_context(own, "context", error_call))
      )
    },
    x,
    names
  )
  stats::setNames(made, names)
}

# Returns Python's result of each candidate. If Ctrl-C ends a candidate, this candidate and all
# later ones are left out. `made` converts the results to the value of last_results() if a candidate
# ends with an error.
run_candidates <- function(plan, tried, progress, verbosity, made, error_call) {
  texts <- as.list(as_text(plan[["texts"]]))
  settings <- as_text(plan[["settings"]])
  bar <- new_bar(progress)
  done <- list()
  running <- NULL # labels of a candidate that was ended early
  is_over <- FALSE
  on.exit({
    bar$end()
    if (!is_over) keep_results(with_running(made(done), running))
  })
  for (i in seq_along(tried)) {
    if (verbosity >= 1) {
      cli::cli_inform("{i}/{length(tried)}: {tried[[i]]$name}")
    }
    run <- quietly(
      verbosity < 0,
      run_coding(
        tried[[i]]$object,
        texts,
        list(content = tried[[i]]$codebook$content),
        candidate_options(settings[[i]], plan[["journal"]]),
        part_of_bar(bar, i, length(tried)),
        error_call,
        made = function(columns) {
          running <<- labels_so_far(texts, columns)
          NULL
        }
      )
    )
    if (run$interrupted) {
      is_over <- TRUE
      running <- labels_so_far(texts, run$columns)
      return(list(done = done, interrupted = TRUE, running = running))
    }
    labels <- labels_of_run(plan, run$columns)
    labels["codebook"] <- list(NULL)
    done[[i]] <- c(list(name = tried[[i]]$name), labels)
  }
  is_over <- TRUE
  list(done = done, interrupted = FALSE)
}

candidate_options <- function(settings, journal) {
  options <- list(
    settings = settings,
    journal = journal,
    versions = list(R = as.character(getRversion()))
  )
  Filter(Negate(is.null), options)
}

journal_given <- function(journal, error_call) {
  if (is.null(journal) || rlang::is_bool(journal)) {
    return(journal)
  }
  expand_path(check_string(journal, "journal", error_call = error_call))
}

# Selects the columns that Python accepts: lists and similar objects cannot be texts or identifiers.
is_sent <- function(data) {
  vapply(data, \(column) is.atomic(column) || is.factor(column), logical(1))
}

# Returns the comparison; NULL if no candidate is finished.
new_comparison <- function(plan, runs, options, error_call) {
  if (length(runs) == 0) {
    return(NULL)
  }
  found <- py_call("compare_make", plan[["gold"]], runs, options, error_call = error_call)
  fixed(
    list(
      summary = plain_columns(found[["rows"]]),
      pairs = plain_columns(found[["pairs"]]),
      best = found[["best"]],
      tied = as_text(found[["tied"]]),
      n = as.integer(found[["n"]]),
      measure = options$measure,
      notes = as_text(found[["notes"]]),
      page = found[["page"]],
      json = found[["json"]]
    ),
    class = "llamaherd_codebooks"
  )
}

new_choice <- function(found) {
  fixed(
    list(
      name = found[["name"]],
      hash = found[["hash"]],
      codebook = new_codebook(py_call("codebook_make", found[["content"]])),
      settings = jsonlite::parse_json(found[["settings"]]),
      model = found[["model"]],
      measure = found[["measure"]],
      value = found[["value"]],
      tied = as_text(found[["tied"]]),
      page = found[["page"]],
      json = found[["json"]]
    ),
    class = "llamaherd_choice"
  )
}

new_evaluation <- function(found, choice) {
  value <- lapply(found[["value"]], as.double)
  structure(
    list(
      choice = choice,
      value = data.frame(measure = choice$measure, value),
      measures = plain_columns(found[["measures"]]),
      n = as.integer(found[["n"]]),
      n_failed = as.integer(found[["n_failed"]]),
      first = found[["first"]],
      opened = plain_columns(found[["opened"]]),
      notes = as_text(found[["notes"]]),
      gold = new_gold(found[["gold"]]),
      page = found[["page"]]
    ),
    class = "llamaherd_evaluation"
  )
}

# Returns a data frame of Python's columns, which are texts or numbers.
plain_columns <- function(columns) {
  made <- lapply(columns, \(column) {
    if (any(vapply(column, is.character, logical(1)))) {
      as_text(column)
    } else {
      numbers_of(column)
    }
  })
  n <- if (length(made) > 0) length(made[[1]]) else 0L
  new_frame(made, n)
}

# Returns the labels of a coding in the form that Python accepts.
labels_given <- function(coded, error_call, arg = "coded") {
  check_given(coded, arg = arg, error_call = error_call)
  known <- if (inherits(coded, "llamaherd_coded")) coded_columns(coded)
  if (is.null(known$label) || is.null(known$text)) {
    must <- "the result of annotate_texts(), with its columns of texts and labels"
    abort_argument(arg, must, coded, error_call)
  }
  record <- attr(coded, "llamaherd")
  columns <- unclass(coded)
  probs <- unname(record$probs[record$names])
  has_probs <- length(probs) == length(record$names) && all(probs %in% names(coded))
  thoughts <- as.list(record$columns)$thinking
  mean <- as.list(record$columns)$mean
  list(
    texts = text_list(as_utf8(columns[[known$text]])),
    labels = text_list(as_utf8(columns[[known$label]])),
    names = as_py_list(record$names),
    probs = if (has_probs) rows_of(do.call(cbind, columns[probs])),
    expected = if (isTRUE(record$codebook$is_numeric) && isTRUE(mean %in% names(coded))) {
      as_py_numbers(columns[[mean]])
    },
    thoughts = if (!is.null(thoughts) && thoughts %in% names(coded)) {
      text_list(as_utf8(columns[[thoughts]]))
    },
    codebook = record$codebook$content,
    run = record$run_json
  )
}

# Returns labels in the same form from the result of a coding that evaluate_codebook() ran.
labels_of_run <- function(plan, found) {
  names <- as_text(found[["names"]])
  probs <- found[["columns"]][paste0("p_", names)]
  means <- found[["columns"]][["mean"]]
  has_probs <- !any(vapply(probs, is.null, logical(1)))
  list(
    texts = as.list(as_text(plan[["texts"]])),
    labels = text_list(as_text(found[["labels"]])),
    names = as_py_list(names),
    probs = if (has_probs) rows_of(do.call(cbind, lapply(probs, numbers_of))),
    expected = if (!is.null(found[["numbers"]]) && !is.null(means)) {
      as_py_numbers(numbers_of(means))
    },
    thoughts = NULL,
    codebook = plan[["content"]],
    run = found[["run"]]
  )
}
