#' How far labels depend on words, order, model and chance
#'
#' Codes the same texts in several ways and tells how many labels change: under codebooks that
#' ask the same in other words, with the labels in another order, with other models, and, for
#' labels that are written with a temperature, with other seeds.
#'
#' @param data What [annotate_texts()] returned: the first variant is how these labels were made, by
#'   their codebook, settings and seed, so that [report()] takes the result. Or another data frame.
#' @param text As in [annotate_texts()]; not needed for what it returned.
#' @param codebooks A codebook, or a list of several with the same labels; the first is what the
#'   others are compared with. Names of the list are shown. Not needed for what [annotate_texts()]
#'   returned, whose codebook is the first.
#' @param contexts A context, or a list of several, on other models; the first on the model that
#'   labels were made by.
#' @param orders Orders of the labels to try beside the codebook's own: a number, drawn by
#'   `seed`, or a list of character vectors. Not for an ordinal scale.
#' @param seeds Whole numbers to draw with; needs `method = "generate"` and a `temperature`.
#' @param n_texts Number of texts to draw, by `seed`; NULL: all that are not NA.
#' @param seed Of orders and texts.
#' @param crossed TRUE tries all combinations; FALSE each alone, with the others as in the first.
#' @param gold A [gold_sample()] of `data` with codes: adds an estimate by DSL for each variant,
#'   from its labels and the same codes, which tells how far a conclusion depends on the variant.
#'   With `n_texts` only the codes of texts that are drawn count.
#' @param formula,outcome As in [estimate()]; labels are called `label` in the formula.
#' @param progress,verbosity As in [annotate_texts()].
#' @param ... Further arguments of [annotate_texts()], such as `method`, `chat` and `calibrate`; in
#'   place of those that the labels of `data` were made with.
#' @returns A `llamaherd_robustness`, a list:
#'
#'   * `summary`: a data frame with a row for each variant: `variant`, its name; `flips`, the
#'     share of texts whose label is not that of the first variant; and the share of each label.
#'   * `labels`: a data frame with a row for each text, `row`, its row in `data`, `unstable`, the
#'     share of variants that do not give it its most frequent label, and its label in each.
#'   * `pairwise`: a matrix of the share of texts whose labels differ between two variants.
#'   * `ranges`: a data frame of the smallest and the largest share of each label.
#'   * `agreement`: the mean share of equal labels over all pairs, and `alpha`, Krippendorff's,
#'     with variants as coders.
#'   * `estimates`: with `gold`, a data frame with a row for each variant and estimate: `variant`,
#'     and what [estimate()] has. A variant whose labels give none has no row, with a warning.
#'   * `notes`: what to know of the estimates.
#'   * `runs`: how each variant's labels came about, as JSON.
#' @seealso [annotate_texts()], [estimate()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' labels <- c("Sports", "Business", "Science", "Politics")
#' books <- list(
#'   label = codebook("Label the topic of each news text.", labels),
#'   ask = codebook("What is the text about?", labels)
#' )
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#'
#' found <- robustness(news, text, books, context, orders = 1, n_texts = 8)
#' found
#' plot(found)
robustness <- function(
  data,
  text = NULL,
  codebooks = NULL,
  contexts = NULL,
  ...,
  orders = 0L,
  seeds = integer(),
  n_texts = NULL,
  seed = 1234L,
  crossed = FALSE,
  gold = NULL,
  formula = NULL,
  outcome = NULL,
  progress = interactive(),
  verbosity = 0L
) {
  error_call <- rlang::current_env()
  if (!is.data.frame(data)) {
    abort_argument("data", "a data frame", data, error_call)
  }
  settings <- check_dots(
    list(...),
    c(
      "method",
      "calibrate",
      "normalize",
      "chat",
      "split",
      "part_tokens",
      "temperature",
      "max_tokens"
    )
  )
  own <- attr(data, "llamaherd")
  text <- rlang::enquo(text)
  if (rlang::quo_is_null(text)) {
    if (is.null(own$text) || is.na(own$text)) {
      abort_argument("text", columns_of_data(data), NULL, error_call)
    }
    text <- rlang::new_quosure(as.name(own$text))
  }
  found <- texts_of(data, text, error_call)
  texts <- found$values
  # Labels that there are, unless other texts are to be coded.
  run <- if (found$is_column && identical(found$name, own$text)) own$run_json
  books <- if (is.null(codebooks) && !is.null(run)) {
    list()
  } else {
    listed(codebooks, "llamaherd_codebook", "codebooks", error_call)
  }
  places <- listed(contexts, "llamaherd_context", "contexts", error_call)
  objects <- lapply(places, check_context, "contexts", error_call)
  progress <- check_flag(progress)
  verbosity <- check_whole(verbosity)
  settings <- checked_counts(settings, error_call)
  plan <- py_call(
    "robustness_plan",
    as_py_list(lapply(books, \(book) book$content)),
    as_py_list(names(books)),
    as_py_list(names(places)),
    as_py_list(!vapply(texts, is.null, logical(1))),
    list(
      orders = check_orders(orders, error_call),
      seeds = as_py_list(as.double(seeds)),
      n_texts = if (!is.null(n_texts)) check_whole(n_texts, min = 1),
      seed = as.double(check_whole(seed, min = 0)),
      crossed = check_flag(crossed),
      run = run,
      context = if (!is.null(run)) objects[[1]],
      settings = settings
    ),
    error_call = error_call
  )
  rows <- as.integer(unlist(plan[["rows"]])) + 1L
  name <- if (found$name %in% names(data)) found$name
  gold <- check_judge(gold, data, name, rows, formula, outcome, error_call)
  runs <- run_variants(
    plan,
    objects,
    texts[rows],
    list(settings = plan[["settings"]]),
    progress,
    verbosity,
    error_call
  )
  result <- new_robustness(plan, runs, rows, texts[rows], error_call)
  if (!is.null(gold)) {
    several <- c(books, list(own$codebook))[[1]]$type == "multiple"
    result <- with_estimates(result, data, name, gold, formula, outcome, several)
  }
  document_event("robustness", \() {
    list(
      n_texts = length(rows),
      variants = result$summary$variant,
      agreement = result$agreement,
      alpha = result$alpha,
      input_hash = lines_sha256(unlist(texts[rows])),
      output_hash = lines_sha256(unlist(lapply(result$labels[-(1:2)], as.character))),
      settings = settings
    )
  })
  result
}

# Whether estimates will be possible, before anything is coded.
check_judge <- function(gold, data, text, rows, formula, outcome, error_call) {
  if (is.null(gold)) {
    if (!is.null(formula) || !is.null(outcome)) {
      message <- "{.arg formula} and {.arg outcome} are for estimates: these need {.arg gold}."
      abort(message, "argument", error_call)
    }
    return(NULL)
  }
  # Labels of variants are not those that it was drawn by.
  attr(gold, "json") <- py_call("gold_unlabelled", check_gold(gold, error_call))
  gold <- joined_gold(gold, data, NULL, text, error_call)
  if (sum(gold$rows %in% rows & !is.na(gold$gold)) < 2) {
    must <- "a sample with two codes at least of the texts to be coded"
    abort_argument("gold", must, gold, error_call)
  }
  if (!is.null(formula) && !rlang::is_formula(formula)) {
    abort_argument(
      "formula",
      "a formula, such as label == \"x\" ~ age",
      formula,
      error_call
    )
  }
  gold
}

# The estimates by the labels of each variant.
with_estimates <- function(result, data, text, gold, formula, outcome, several) {
  frame <- as.data.frame(data)
  class(frame) <- "data.frame"
  frame$label <- NULL
  document <- the$document
  the$document <- NULL # the log has the whole, and not each estimate
  on.exit(the$document <- document)
  fits <- lapply(result$summary$variant, \(variant) {
    labels <- result$labels[[variant]]
    frame$label <- labels[NA_integer_][rep(1L, nrow(frame))]
    frame$label[result$labels$row] <- labels
    arguments <- list(frame, gold, formula, methods = "dsl", label = "label", text = text)
    arguments <- c(arguments, list(outcome = outcome, several = several))
    rlang::try_fetch(
      suppressWarnings(do.call(estimate, arguments)),
      error = \(cnd) {
        problem <- conditionMessage(cnd)
        cli::cli_warn("{.val {variant}} has no estimate: {problem}")
        NULL
      }
    )
  })
  some <- !vapply(fits, is.null, TRUE)
  rows <- lapply(which(some), \(i) {
    cbind(variant = result$summary$variant[[i]], as.data.frame(fits[[i]]))
  })
  result["estimates"] <- list(if (any(some)) do.call(rbind, rows))
  result$fit <- if (any(some)) fits[some][[1]]
  result$level <- if (any(some)) fits[some][[1]]$level
  result$notes <- unique(unlist(lapply(fits[some], \(fit) fit$notes)))
  result
}

# A single thing or a list of them as a list with names.
listed <- function(x, class, arg, error_call) {
  if (inherits(x, class)) {
    x <- list(x)
  }
  fits <- is.list(x) && length(x) > 0 && all(vapply(x, inherits, logical(1), class))
  if (!fits) {
    abort_argument(arg, sprintf("a <%s>, or a list of them", class), x, error_call)
  }
  given <- rlang::names2(x)
  names(x) <- ifelse(nzchar(given), given, as.character(seq_along(x)))
  if (anyDuplicated(names(x))) {
    abort_argument(arg, "a list with names of which no two are the same", x, error_call)
  }
  x
}

check_orders <- function(x, error_call) {
  if (is.list(x)) {
    return(lapply(unname(x), \(order) {
      as_py_list(check_text(as_plain(order), "orders", error_call))
    }))
  }
  check_whole(x, "orders", min = 0, error_call = error_call)
}

# Settings whose numbers must be whole.
checked_counts <- function(settings, error_call) {
  for (name in intersect(c("max_tokens", "part_tokens"), names(settings))) {
    settings[[name]] <- check_whole(
      settings[[name]],
      name,
      min = 1,
      error_call = error_call
    )
  }
  settings
}

# Python's results of each variant. One that Ctrl-C has ended is left out, with all after it.
run_variants <- function(
  plan,
  objects,
  texts,
  settings,
  progress,
  verbosity,
  error_call
) {
  names <- as_text(plan[["names"]])
  books <- as_text(plan[["codebooks"]])
  at <- as.integer(unlist(plan[["contexts"]])) + 1L
  runs <- list()
  bar <- new_bar(progress)
  on.exit(bar$end())
  for (i in seq_along(names)) {
    options <- settings
    if (!is.null(plan[["seeds"]][[i]])) {
      options$seed <- plan[["seeds"]][[i]]
    }
    options$versions <- list(R = as.character(getRversion()))
    if (verbosity >= 1) {
      cli::cli_inform("{i}/{length(names)}: {names[[i]]}")
    }
    run <- quietly(
      verbosity < 0,
      run_coding(
        objects[[at[[i]]]],
        texts,
        list(content = books[[i]]),
        options,
        part_of_bar(bar, i, length(names)),
        error_call
      )
    )
    if (run$interrupted) {
      bar$end()
      done <- if (length(runs) > 0) new_robustness(plan, runs, NULL, texts, error_call)
      the$last_results <- done
      message <- sprintf(
        "Interrupted: %d of %d variants done.",
        length(runs),
        length(names)
      )
      interrupt(message, done, verbosity)
    }
    runs[[i]] <- run$columns
  }
  runs
}

new_robustness <- function(plan, runs, rows, texts, error_call) {
  rows <- rows %||% (as.integer(unlist(plan[["rows"]])) + 1L)
  labels <- lapply(runs, \(run) as_text(run[["labels"]]))
  some <- seq_along(runs)
  names <- as_text(plan[["names"]])[some]
  found <- py_call(
    "robustness_compare",
    as_py_list(names),
    as_py_list(as_text(plan[["codebooks"]])[some]),
    lapply(labels, text_list),
    as_py_list(rows),
    as_py_list(texts),
    error_call = error_call
  )
  kinds <- as_text(found[["names"]])
  shares <- matrix_of(found[["shares"]], kinds)
  summary <- data.frame(
    variant = names,
    flips = numbers_of(found[["flips"]]),
    shares,
    check.names = FALSE
  )
  pairwise <- matrix_of(found[["pairwise"]], names)
  rownames(pairwise) <- names
  each <- data.frame(row = rows, unstable = numbers_of(found[["unstable"]]))
  each[names] <- lapply(labels, factor, levels = label_levels(labels, kinds))
  structure(
    list(
      summary = summary,
      labels = each,
      pairwise = pairwise,
      ranges = data.frame(
        label = kinds,
        min = unname(apply(shares, 2, min)),
        max = unname(apply(shares, 2, max))
      ),
      agreement = numbers_of(found[["agreement"]]),
      alpha = found[["alpha"]],
      runs = vapply(runs, \(run) run[["run"]], character(1)),
      source = found[["source"]]
    ),
    class = "llamaherd_robustness"
  )
}

# Of several labels a text there are combinations.
label_levels <- function(labels, names) {
  found <- unique(unlist(labels))
  if (all(found %in% c(names, NA))) names else sort(found)
}

#' @export
print.llamaherd_robustness <- function(x, ...) {
  cat(sprintf(
    "<llamaherd_robustness> %d texts, %d variants\n",
    nrow(x$labels),
    nrow(x$summary)
  ))
  shown <- x$summary
  shown[-1] <- lapply(shown[-1], \(share) sprintf("%.1f%%", 100 * share))
  print(shown, row.names = FALSE)
  alpha <- if (!is.null(x$alpha)) sprintf(", Krippendorff's alpha %.3f", x$alpha)
  cat(sprintf("agreement %.1f%%%s\n", 100 * x$agreement, alpha %||% ""))
  print_variants(x$estimates, x$notes)
  invisible(x)
}

# Each estimate under each variant, and how far it goes.
print_variants <- function(rows, notes) {
  if (is.null(rows)) {
    return(invisible())
  }
  cat("labels corrected by codes (DSL), with intervals:\n")
  what <- trimws(paste(rows$outcome, rows$term, rows$group))
  for (each in unique(what)) {
    own <- rows[what == each, ]
    ends <- range(own$estimate)
    cat(sprintf("%s: from %.3f to %.3f\n", each, ends[[1]], ends[[2]]))
    wide <- formatC(own$variant, width = -max(nchar(own$variant)))
    numbers <- sprintf("%.3f [%.3f, %.3f]", own$estimate, own$low, own$high)
    cat(paste0("  ", wide, "  ", numbers, "\n"), sep = "")
  }
  cat(paste0("Note: ", notes, "\n")[seq_along(notes)], sep = "")
}
