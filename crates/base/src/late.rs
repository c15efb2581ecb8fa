// SPDX-License-Identifier: Apache-2.0
//! Frames that a fault campaign makes late by their kind, while all others are on time. The code
//! asks at the place where such a frame is sent or taken in. Only the simulated driver ever names a
//! time.

crate::named! {
    /// One kind of frame.
    pub enum LateFrame {
        /// A request for a grant (rule 52). What comes behind it in its lane is late too.
        Renewal = "renewal",
        /// The answer to such a request. Answers keep no order among themselves.
        Grant = "grant",
        /// The directory's answer to a request. Answers keep no order among themselves.
        DirectoryAnswer = "directory-answer",
        /// What the directory tells a client of its watches. Later events wait with it.
        WatchEvents = "watch-events",
    }
}
