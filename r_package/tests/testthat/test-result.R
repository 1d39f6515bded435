local_result <- function(env = parent.frame()) {
  context <- local_context(env)
  prompts <- c(a = "x", b = "fail badly", c = "raw two\nlines", d = "y")
  suppressWarnings(generate_parallel(context, prompts))
}

test_that("results print", {
  result <- local_result()
  expect_snapshot(result)
  expect_snapshot(print(unname(result), n = 2))
  expect_snapshot(attr(result, "stats"))
  long <- suppressWarnings(generate_parallel(
    local_context(),
    strrep("word ", 50)
  ))
  expect_snapshot(print(long, width = 40))
})

test_that("subsetting keeps what belongs to the elements", {
  result <- local_result()
  part <- result[c("d", "b")]
  expect_s3_class(part, "llamaherd_result")
  expect_identical(plain(part), c(d = "y!", b = NA))
  expect_identical(attr(part, "errors"), c(NA, "badly"))
  expect_identical(attr(part, "usage")$n_prompt_tokens, c(4L, 2L))
  expect_identical(attr(part, "hashes")$output[[2]], NA_character_)
  expect_identical(result[], result)
  expect_identical(plain(result[-1]), plain(result)[-1])
  expect_identical(plain(result[!is.na(result)]), plain(result)[c(1, 3, 4)])
  expect_identical(result[["c"]], "two\nlines")
  expect_identical(plain(rev(result)), rev(plain(result)))
})

test_that("results are as good as plain text", {
  result <- local_result()
  expect_identical(result == "x!", c(a = TRUE, b = NA, c = FALSE, d = FALSE))
  expect_identical("x!" == result, result == "x!")
  expect_identical(result == result, c(a = TRUE, b = NA, c = TRUE, d = TRUE))
  expect_identical(as.character(result), c("x!", NA, "two\nlines", "y!"))
  expect_identical(c(result, "z"), c(plain(result), "z"))
  expect_identical(paste0(result[1], "?"), "x!?")
  expect_identical(levels(factor(result)), c("two\nlines", "x!", "y!"))
})

test_that("results become tables", {
  result <- local_result()
  table <- as.data.frame(result)
  expect_identical(
    names(table),
    c(
      "name",
      "text",
      "finish_reason",
      "error",
      "n_prompt_tokens",
      "n_reused_tokens",
      "n_generated_tokens",
      "seed"
    )
  )
  expect_identical(table$text, as.character(result))
  expect_identical(table$error, c(NA, "badly", NA, NA))
  expect_identical(nrow(as.data.frame(unname(result))), 4L)

  column <- data.frame(id = 1:4, label = result)
  expect_identical(names(column), c("id", "label"))
  column$again <- result
  expect_identical(as.character(column$again), as.character(result))
})

test_that("results fit into tibbles", {
  skip_if_not_installed("tibble")
  skip_if_not_installed("vctrs")
  result <- local_result()
  expect_identical(tibble::as_tibble(result)$text, as.character(result))
  table <- tibble::tibble(id = 1:4, label = result)
  expect_identical(as.character(table[2:3, ]$label), as.character(result)[2:3])
  expect_output(print(table), "x!")
  expect_identical(
    vctrs::vec_c(result, result),
    c(plain(result), plain(result))
  )
  expect_identical(vctrs::vec_c(result, "z"), c(plain(result), "z"))
})
