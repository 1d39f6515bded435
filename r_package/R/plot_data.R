# What plots show: a list with `shape`, `data`, a small data frame, `title`, `x`, `y` (labels of
# the axes) and what a shape needs besides. The drawers of plot_base.R and plot_ggplot2.R know
# nothing else.
#
#   bars      row, part, n; `notes`, a text for each row; `legend`, or NULL
#   forest    row, series, value, low, high; `spans`, row, low, high
#   panels    row, series, value, low, high: a panel with an axis of its own for each row
#   matrix    row, column, n, share; `legend`, what shares are of
#   curve     x, y, low, high; `reference`, the ends of a line, `named`; `steps`
#   timeline  waited, first, end, in the order of the rows

picture <- function(shape, data, title, x, y = "", ...) {
  list(shape = shape, data = data, title = title, x = x, y = y, ...)
}

# Least probabilities of shades, the surest first.
bands <- c("0.9 to 1" = 0.9, "0.7 to 0.9" = 0.7, "0.5 to 0.7" = 0.5, "below 0.5" = 0)

picture_coded <- function(x) {
  coding <- attr(x, "llamaherd")
  names <- coding$names
  if (length(names) == 0) {
    abort("There are no labels to count: the codebook has fields.", "argument")
  }
  probs <- unname(coding$probs[names])
  is_there <- length(probs) == length(names) && all(probs %in% names(x))
  picture_labels(
    labels_in(x, coding),
    names,
    if (is_there) unclass(x)[probs],
    sum(!is.na(x[[coding$label]])),
    "texts"
  )
}

picture_classes <- function(x) {
  names <- colnames(attr(x, "logprobs"))
  labels <- as.character(x$label)
  has <- outer(labels, names, \(label, name) !is.na(label) & label == name)
  picture_labels(
    has,
    names,
    unclass(x)[paste0("p_", names)],
    sum(!is.na(labels)),
    "prompts"
  )
}

# How many things have each label, by how sure the model is. `has` is a matrix with a column for
# each label, `probs` a list with as many, or NULL.
picture_labels <- function(has, names, probs, n_known, things) {
  counts <- colSums(has)
  data <- if (is.null(probs)) {
    data.frame(row = names, part = things, n = counts)
  } else {
    sure <- matrix(as.double(unlist(probs)), nrow(has))
    band <- matrix(findInterval(-sure, -bands, left.open = TRUE) + 1L, nrow(has))
    parts <- lapply(seq_along(bands), \(b) {
      n <- colSums(has & !is.na(band) & band == b)
      data.frame(row = names, part = names(bands)[[b]], n = n)
    })
    do.call(rbind, parts)
  }
  data$row <- factor(data$row, names)
  data$part <- factor(data$part, unique(data$part))
  share <- if (n_known > 0) sprintf(" (%.0f%%)", 100 * counts / n_known) else ""
  picture(
    "bars",
    data,
    sprintf("Labels of %s %s", big(nrow(has)), things),
    sprintf("number of %s", things),
    notes = paste0(big(counts), share),
    legend = if (!is.null(probs)) "probability of the label"
  )
}

# For each text and label whether it has it.
labels_in <- function(x, coding) {
  labels <- as.character(x[[coding$label]])
  has <- if (identical(coding$codebook$type, "multiple")) {
    parts <- strsplit(labels, "; ", fixed = TRUE)
    vapply(
      coding$names,
      \(name) vapply(parts, \(part) name %in% part, TRUE),
      logical(length(labels))
    )
  } else {
    vapply(
      coding$names,
      \(name) !is.na(labels) & labels == name,
      logical(length(labels))
    )
  }
  matrix(has, length(labels))
}

measure_names <- c(
  accuracy = "accuracy",
  balanced_accuracy = "balanced accuracy",
  macro_f1 = "macro F1",
  percent = "agreement, share alike",
  kappa = "Cohen's kappa",
  "weighted kappa" = "quadratic kappa",
  alpha = "Krippendorff's alpha",
  ac1 = "Gwet's AC1"
)

picture_measures <- function(x) {
  parts <- c("accuracy", "model and people", "between people")
  table <- x$table[
    x$table$part %in% parts & x$table$measure %in% names(measure_names),
  ]
  series <- ifelse(table$part == "between people", "between people", "model and people")
  shown <- intersect(names(measure_names), table$measure)
  # What it takes no model for: of accuracy alone.
  base <- x$table[x$table$part == "baseline" & !is.na(x$table$value), ]
  always <- sprintf("always '%s'", base$label)
  data <- data.frame(
    row = c(measure_names[table$measure], rep("accuracy", nrow(base))),
    series = c(series, always),
    rbind(table, base)[c("value", "low", "high")]
  )
  data$row <- factor(data$row, unname(measure_names[shown]))
  data$series <- factor(data$series, c(intersect(parts[-1], series), always))
  picture(
    "forest",
    data,
    measures_title(x),
    sprintf("value, with %s interval", percent(x$level)),
    limits = c(0, 1)
  )
}

# Texts on which people are divided do not count for accuracy.
measures_title <- function(x) {
  n_used <- x$table$n[x$table$part == "accuracy" & x$table$measure == "accuracy"]
  if (n_used == x$n_gold) {
    return(sprintf("Labels against the codes of people, %s texts", big(x$n_gold)))
  }
  sprintf(
    "Labels against codes of people (%s texts; accuracy: %s)",
    big(x$n_gold),
    big(n_used)
  )
}

picture_scores <- function(x) {
  labels <- x$labels
  rows <- sprintf("%s (%s)", labels$label, big(labels$n_gold))
  scores <- c(precision = "precision", recall = "recall", f1 = "F1")
  data <- lapply(names(scores), \(name) {
    data.frame(
      row = rows,
      series = scores[[name]],
      value = labels[[name]],
      low = labels[[paste0(name, "_low")]],
      high = labels[[paste0(name, "_high")]]
    )
  })
  data <- do.call(rbind, data)
  data$row <- factor(data$row, rows)
  data$series <- factor(data$series, unname(scores))
  picture(
    "forest",
    data,
    "How good each label is (texts that people gave it)",
    sprintf("share, with %s interval", percent(x$level)),
    limits = c(0, 1)
  )
}

picture_confusion <- function(x) {
  counts <- x$confusion$vs_gold$model %||%
    abort(
      "Texts with several labels have no confusion matrix.",
      "argument",
      rlang::caller_env()
    )
  counts <- matrix(as.integer(counts), nrow(counts), dimnames = dimnames(counts))
  total <- rowSums(counts)
  names <- x$labels$label
  picture(
    "matrix",
    data.frame(
      row = factor(rep(names, times = ncol(counts)), names),
      column = factor(rep(names, each = nrow(counts)), names),
      n = as.vector(counts),
      share = as.vector(counts / ifelse(total > 0, total, 1))
    ),
    "Texts by label and code",
    "code of people",
    "label of the model",
    legend = "share of the texts with this label"
  )
}

picture_calibration <- function(x, error_call) {
  bins <- x$bins %||% abort_no_prob(error_call)
  table <- x$table
  error <- table$value[table$part == "calibration" & table$measure == "ece"]
  picture(
    "curve",
    data.frame(
      x = bins$confidence,
      y = bins$accuracy,
      low = bins$accuracy_low,
      high = bins$accuracy_high
    ),
    sprintf("Calibration (error %.3f, %s texts)", error, big(sum(bins$n))),
    "mean probability of the label",
    sprintf("share that is right, with %s interval", percent(x$level)),
    reference = data.frame(x = c(0, 1), y = c(0, 1)),
    named = "as often right as it says",
    steps = FALSE
  )
}

picture_agreement <- function(x) {
  named <- measure_names[x$coefficient]
  row <- unname(ifelse(is.na(named), x$coefficient, named))
  picture(
    "forest",
    data.frame(
      row = factor(row, unique(row)),
      series = factor(rep("agreement", nrow(x))),
      value = x$value,
      low = x$low,
      high = x$high
    ),
    sprintf(
      "Agreement of %s coders on %s units",
      big(max(x$n_coders, 0L)),
      big(max(x$n_units, 0L))
    ),
    sprintf("value, with %s interval", percent(attr(x, "level"))),
    limits = c(0, 1)
  )
}

picture_coverage <- function(x, error_call) {
  if (nrow(x) == 0) {
    abort("There are no coded texts to show.", "argument", error_call)
  }
  curve <- as.data.frame(unclass(x)[c("coverage", "accuracy", "low", "high")])
  names(curve) <- c("x", "y", "low", "high")
  all_of_them <- curve$y[[nrow(curve)]]
  picture(
    "curve",
    curve,
    sprintf("Accuracy of the surest labels, %s texts", big(attr(x, "n"))),
    "share of texts that the model labels, the surest first",
    sprintf("share of these that is right, with %s interval", percent(attr(x, "level"))),
    reference = data.frame(x = c(0, 1), y = all_of_them),
    named = "accuracy of all texts",
    steps = TRUE
  )
}

method_names <- c(
  dsl = "corrected (DSL)",
  ppi = "corrected (PPI++)",
  gold = "codes of people alone",
  naive = "labels as if right"
)

picture_estimates <- function(x) {
  rows <- x$rows
  outcomes <- unique(rows$outcome)
  terms <- unique(rows$term)
  alone <- length(terms) == 1 & rows$group == ""
  parts <- cbind(
    ifelse(length(outcomes) > 1 | alone, rows$outcome, ""),
    if (length(terms) > 1) rows$term else "",
    group_names(rows$group, x$grouped_by)
  )
  name <- apply(parts, 1, \(part) paste(part[nzchar(part)], collapse = ", "))
  name <- ifelse(nzchar(name), name, rows$term)
  formula <- if (!is.null(x$formula)) deparse1(x$formula)
  what <- if (is.null(formula)) {
    paste(sort(terms), collapse = " or ")
  } else if (identical(x$model, "logit")) {
    "coefficient (log odds)"
  } else {
    "coefficient"
  }
  # Coefficients have different units.
  picture(
    if (is.null(formula)) "forest" else "panels",
    data.frame(
      row = factor(name, unique(name)),
      series = factor(method_names[rows$method], method_names[x$methods]),
      value = rows$estimate,
      low = rows$low,
      high = rows$high
    ),
    sprintf(
      "%s: %s texts, %s coded",
      shorten(formula %||% "Estimates", 60L),
      big(x$n_texts),
      big(x$n_gold)
    ),
    sprintf("%s, with %s interval", what, percent(x$level)),
    limits = if (all(terms == "share")) c(0, NA)
  )
}

# Groups with the names of their columns.
group_names <- function(groups, columns) {
  named <- sprintf("%s: %s", paste(columns, collapse = " / "), groups)
  ifelse(nzchar(groups) & length(columns) > 0, named, groups)
}

picture_robustness <- function(x) {
  if (!is.null(x$estimates)) {
    return(picture_variants(x))
  }
  names <- x$ranges$label
  variants <- x$summary$variant
  short <- make.unique(shorten(variants, 40L))
  change <- sprintf("%s (%.0f%% of labels change)", short, 100 * x$summary$flips)
  series <- c(short[[1]], change[-1])
  data <- data.frame(
    row = factor(rep(names, each = length(series)), names),
    series = factor(rep(series, times = length(names)), series),
    value = unlist(lapply(names, \(name) x$summary[[name]])),
    low = NA_real_,
    high = NA_real_
  )
  picture(
    "forest",
    data,
    sprintf(
      "Shares of labels in %d variants, %s texts",
      length(variants),
      big(nrow(x$labels))
    ),
    "share of texts",
    spans = data.frame(
      row = factor(names, names),
      low = x$ranges$min,
      high = x$ranges$max
    ),
    limits = c(0, NA)
  )
}

# The estimates under each variant.
picture_variants <- function(x) {
  rows <- x$estimates
  variants <- x$summary$variant
  terms <- unique(rows$term)
  is_mean <- all(terms %in% c("share", "mean", "difference"))
  name <- trimws(paste(rows$outcome, if (is_mean) "" else rows$term, rows$group))
  what <- if (is_mean) paste(sort(terms), collapse = " or ") else "coefficient"
  # Coefficients have different units.
  picture(
    if (is_mean) "forest" else "panels",
    data.frame(
      row = factor(name, unique(name)),
      series = factor(rows$variant, variants, make.unique(shorten(variants, 40L))),
      value = rows$estimate,
      low = rows$low,
      high = rows$high
    ),
    sprintf("Estimates in %d variants, %s texts", length(variants), big(nrow(x$labels))),
    sprintf("%s by DSL, with %s interval", what, percent(x$level %||% 0.95)),
    limits = if (all(terms == "share")) c(0, NA)
  )
}

picture_timeline <- function(x, error_call) {
  timing <- attr(x, "timing")
  timing <- timing[!is.na(timing$wall_s), , drop = FALSE]
  if (is.null(timing) || nrow(timing) == 0) {
    message <- "No prompt ran: there is no time to show."
    abort(message, "argument", error_call)
  }
  timing <- timing[order(timing$queue_s, timing$wall_s), ]
  waited <- pmin(timing$queue_s, timing$wall_s)
  first <- ifelse(is.na(timing$first_token_s), timing$wall_s, timing$first_token_s)
  first <- pmax(first, waited)
  stats <- attr(x, "stats")
  picture(
    "timeline",
    data.frame(waited = waited, first = first, end = pmax(timing$wall_s, first)),
    sprintf("%s prompts in %d slots", big(nrow(timing)), as.integer(stats$n_slots)),
    "seconds since the call began",
    "prompts, in the order in which they began"
  )
}

picture_stats <- function(x) {
  rest <- max(0, x$wall_s - x$prefill_s - x$decode_s)
  rows <- c("prompt tokens", "answer tokens", "everything else")
  speed <- function(n, per_s) sprintf("%s at %s/s", big(n), big(round(per_s)))
  picture(
    "bars",
    data.frame(
      row = factor(rows, rows),
      part = factor("seconds"),
      n = c(x$prefill_s, x$decode_s, rest)
    ),
    sprintf("%s prompts in %.1f s", big(x$n_prompts), x$wall_s),
    "seconds",
    notes = c(
      speed(x$n_prefill_tokens, x$prefill_tokens_per_s),
      speed(x$n_decode_tokens, x$decode_tokens_per_s),
      ""
    ),
    legend = NULL
  )
}

big <- function(n) formatC(n, format = "d", big.mark = ",")
percent <- function(level) sprintf("%g%%", 100 * level)
