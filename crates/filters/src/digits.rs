//! Numbers as decimal text, on the stack.

/// The digits of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digits {
    digits: [u8; 10],
    start: usize,
}

impl Digits {
    pub(crate) fn of(number: u32) -> Self {
        let mut digits = [b'0'; 10];
        let mut start = digits.len();
        let mut rest = number;
        for digit in digits.iter_mut().rev() {
            *digit += u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
            start -= 1;
            if rest == 0 {
                break;
            }
        }
        Self { digits, start }
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Digits;

    #[test]
    fn numbers_are_what_formatting_makes() {
        for number in [0, 1, 9, 10, 99, 100, 1_234_567_890, u32::MAX] {
            assert_eq!(Digits::of(number).text(), number.to_string().as_bytes());
        }
    }
}
